"""What ran, written down so that no change of it goes unseen."""
