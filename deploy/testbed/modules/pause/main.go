// The pause image's only program: it holds a Pod's namespaces open.
//
// In a Pod with a shared process namespace it is process 1, so every orphan
// in the Pod becomes its child, and nobody but it can reap them.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// One slot per signal would lose nothing that matters: the kernel merges
	// SIGCHLDs anyway, so each wake-up reaps all there is.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	reap()
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended by now, and waits for none.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
