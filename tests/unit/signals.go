// Four goroutines write to stderr while signals come in and a busy loop gets preempted.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	signals := make(chan os.Signal, 1024)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
		}
	}()
	go func() {
		for {
			syscall.Kill(os.Getpid(), syscall.SIGUSR1)
			time.Sleep(100 * time.Microsecond)
		}
	}()
	go func() {
		for i := 0; ; i++ {
		}
	}()
	var writers sync.WaitGroup
	for g := 0; g < 4; g++ {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for i := 0; i < 5000; i++ {
				if _, err := fmt.Fprintf(os.Stderr, "%d\n", i); err != nil {
					panic(err)
				}
			}
		}()
	}
	writers.Wait()
}
