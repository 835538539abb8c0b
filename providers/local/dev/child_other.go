//go:build !linux

package dev

import "syscall"

// own keeps the terminal's Ctrl-C from a child: it is told to end when its turn comes.
func own() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
