/* Ways out over the network and through sockets. */
#include "attempt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_MS = 1500, FAMILIES = 46, DNS_PORT = 53 };

static bool parse_address(const char *host, int64_t port, struct sockaddr_storage *address,
                          socklen_t *length)
{
    struct sockaddr_in *four = (void *)address;
    struct sockaddr_in6 *six = (void *)address;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        *length = sizeof *four;
        return true;
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)port);
        *length = sizeof *six;
        return true;
    }
    return false;
}

static bool wait_for(int fd, short events)
{
    struct pollfd fds = {.fd = fd, .events = events};
    return poll(&fds, 1, ANSWER_MS) > 0;
}

/* Connects, waiting a moment; a refusal or a silence is an errno. */
static int connect_within(int fd, const void *address, socklen_t length)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (connect(fd, address, length) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -1;
    if (!wait_for(fd, POLLOUT))
        error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size))
        return -1;
    errno = error;
    return error ? -1 : 0;
}

static void net_tcp(struct answer *answer, char **arguments)
{
    struct sockaddr_storage address;
    socklen_t length;
    errno = EINVAL;
    if (!parse_address(arguments[0], number(arguments[1]), &address, &length)) {
        answer_result(answer, -1);
        return;
    }
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    answer_result(answer, fd < 0 ? fd : connect_within(fd, &address, length));
}

static void exchange(struct answer *answer, const struct sockaddr_storage *address, socklen_t length,
                     const void *data, size_t size)
{
    char reply[2048];
    int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    answer_result(answer, fd);
    if (fd < 0)
        return;
    answer_result(answer, sendto(fd, data, size, MSG_DONTWAIT, (const void *)address, length));
    if (answer->error)
        return;
    answer_text(answer, "sent");
    ssize_t n = wait_for(fd, POLLIN) ? recv(fd, reply, sizeof reply, MSG_DONTWAIT) : -1;
    if (n > 0)
        answer_text(answer, ", %zd bytes came back", n);
}

static void net_udp(struct answer *answer, char **arguments)
{
    struct sockaddr_storage address;
    socklen_t length;
    errno = EINVAL;
    if (parse_address(arguments[0], number(arguments[1]), &address, &length))
        exchange(answer, &address, length, arguments[2], strlen(arguments[2]));
    else
        answer_result(answer, -1);
}

/* A question for the A record of NAME. */
static size_t dns_question(unsigned char *packet, size_t size, const char *name)
{
    static const unsigned char head[12] = {0x53, 0x52, 1, 0, 0, 1};
    size_t length = sizeof head;
    memcpy(packet, head, sizeof head);
    for (const char *label = name; *label;) {
        size_t part = strcspn(label, ".");
        if (part == 0 || part > 63 || length + part + 8 > size)
            return 0;
        packet[length++] = (unsigned char)part;
        memcpy(packet + length, label, part);
        length += part;
        label += part + (label[part] == '.');
    }
    memcpy(packet + length, "\0\0\1\0\1", 5);
    return length + 5;
}

static void net_dns(struct answer *answer, char **arguments)
{
    struct sockaddr_storage address;
    socklen_t length;
    unsigned char packet[512];
    size_t size = dns_question(packet, sizeof packet, arguments[1]);
    errno = EINVAL;
    if (size && parse_address(arguments[0], DNS_PORT, &address, &length))
        exchange(answer, &address, length, packet, size);
    else
        answer_result(answer, -1);
}

/* unix PATH; a name that begins with @ is an abstract one. */
static void net_unix(struct answer *answer, char **arguments)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(arguments[0]);
    static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    if (length >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        answer_result(answer, -1);
        return;
    }
    memcpy(address.sun_path, arguments[0], length);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = 0;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int fd = socket(AF_UNIX, kinds[i] | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        answer_result(answer, fd < 0 ? fd : connect(fd, (const void *)&address, size));
        if (answer->error == 0 || answer->error != EPROTOTYPE)
            return;
    }
}

static void net_interfaces(struct answer *answer, char **arguments)
{
    (void)arguments;
    struct ifaddrs *list, *each;
    int64_t others = 0;
    answer_result(answer, getifaddrs(&list));
    if (answer->error)
        return;
    for (each = list; each; each = each->ifa_next) {
        char text[INET6_ADDRSTRLEN] = "-";
        int family = each->ifa_addr ? each->ifa_addr->sa_family : AF_UNSPEC;
        if (family == AF_INET)
            inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)each->ifa_addr)->sin_addr, text,
                      sizeof text);
        else if (family == AF_INET6)
            inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)each->ifa_addr)->sin6_addr, text,
                      sizeof text);
        bool up = each->ifa_flags & IFF_UP, loopback = each->ifa_flags & IFF_LOOPBACK;
        answer_text(answer, "%s %s %s\n", each->ifa_name, up ? "up" : "down", text);
        others += up && !loopback;
    }
    answer->value = others;
}

static const struct {
    int type;
    const char *name;
} types[] = {{SOCK_STREAM, "stream"}, {SOCK_DGRAM, "dgram"},         {SOCK_RAW, "raw"},
             {SOCK_RDM, "rdm"},       {SOCK_SEQPACKET, "seqpacket"}, {SOCK_DCCP, "dccp"},
             {SOCK_PACKET, "packet"}};

/* Every family, type and protocol that gives a socket: "FAMILY TYPE PROTOCOL", one a line. */
static void net_sockets(struct answer *answer, char **arguments)
{
    (void)arguments;
    static const int protocols[] = {0,  1,   2,   6,   17,  33,  47,  50,  51, 58,
                                    94, 103, 132, 136, 255, 256, 262, 768, 15, 16};
    int64_t made = 0;
    for (int family = 0; family < FAMILIES; family++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t p = 0; p < sizeof protocols / sizeof *protocols; p++) {
                int fd = socket(family, types[t].type | SOCK_CLOEXEC, protocols[p]);
                if (fd < 0)
                    continue;
                answer_text(answer, "%d %s %d\n", family, types[t].name, protocols[p]);
                made++;
                close(fd);
            }
    answer->value = made;
    answer->error = 0;
}

/* Every netlink protocol that gives a socket. */
static void net_netlink(struct answer *answer, char **arguments)
{
    (void)arguments;
    answer->value = 0;
    for (int protocol = 0; protocol < 32; protocol++) {
        int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
        if (fd < 0)
            continue;
        answer_text(answer, "%d\n", protocol);
        answer->value++;
        close(fd);
    }
}

static void net_socket(struct answer *answer, char **arguments)
{
    answer_result(answer, socket((int)number(arguments[0]), (int)number(arguments[1]) | SOCK_CLOEXEC,
                                 (int)number(arguments[2])));
}

static void net_broadcast(struct answer *answer, char **arguments)
{
    (void)arguments;
    static const char *const targets[] = {"255.255.255.255", "224.0.0.1", "239.255.255.250"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), yes = 1;
    answer_result(answer, fd);
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
        inet_pton(AF_INET, targets[i], &address.sin_addr);
        answer_result(answer, sendto(fd, "x", 1, MSG_DONTWAIT, (const void *)&address, sizeof address));
        if (answer->error == 0) {
            answer_text(answer, "%s", targets[i]);
            return;
        }
    }
}

/* Sets the flags of the loopback interface to what they are. */
static void net_admin(struct answer *answer, char **arguments)
{
    (void)arguments;
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    strcpy(request.ifr_name, "lo");
    answer_result(answer, fd < 0 ? fd : ioctl(fd, SIOCGIFFLAGS, &request));
    if (answer->error == 0)
        answer_result(answer, ioctl(fd, SIOCSIFFLAGS, &request));
}

/* Sends a datagram whose sender's address says that it comes from elsewhere. */
static void net_transparent(struct answer *answer, char **arguments)
{
    (void)arguments;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), yes = 1;
    answer_result(answer, fd < 0 ? fd : setsockopt(fd, IPPROTO_IP, 19 /* IP_TRANSPARENT */, &yes,
                                                   sizeof yes));
}

static void net_low_port(struct answer *answer, char **arguments)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)number(arguments[0])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    answer_result(answer, fd < 0 ? fd : bind(fd, (const void *)&address, sizeof address));
}

const struct verb network_verbs[] = {
    {"tcp", 2, net_tcp},
    {"udp", 3, net_udp},
    {"dns", 2, net_dns},
    {"unix", 1, net_unix},
    {"interfaces", 0, net_interfaces},
    {"sockets", 0, net_sockets},
    {"netlink", 0, net_netlink},
    {"socket", 3, net_socket},
    {"broadcast", 0, net_broadcast},
    {"net-admin", 0, net_admin},
    {"transparent", 0, net_transparent},
    {"bind", 1, net_low_port},
    {0},
};
