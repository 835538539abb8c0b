package outbound

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// control bounds a socket before it connects.
func control(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(Limit().Milliseconds()))
	})
	if err := errors.Join(err, set); err != nil {
		return fmt.Errorf("bound what the kernel sends: %w", err)
	}
	return nil
}
