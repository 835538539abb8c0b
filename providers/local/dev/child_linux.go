package dev

import "syscall"

// own lets a child end with this process, however that ends, and keeps the terminal's Ctrl-C
// from it: it is told to end when its turn comes.
func own() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
