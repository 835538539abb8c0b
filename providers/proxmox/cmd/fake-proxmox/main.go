// Command fake-proxmox is a Proxmox VE cluster that exists in memory, for trying the
// Proxmox VE build out without one. Machines are processes of this box that run their
// user data; see package guest for what that can be.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake-proxmox:", err)
		os.Exit(1)
	}
}
