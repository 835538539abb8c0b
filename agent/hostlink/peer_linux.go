package hostlink

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// checkPeer reports why the process at the other end of a connection is not to be believed.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("who listens: %w", failed)
	}
	return believe(int(peer.Uid), os.Getuid())
}

// believe reports why a program of a user is not to be believed by one of the agent's user.
func believe(peer, own int) error {
	if peer != 0 && peer != own {
		return fmt.Errorf("the program that listens runs as user %d, and must run as root", peer)
	}
	return nil
}
