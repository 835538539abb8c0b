package policy

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

type owned struct {
	fs.FileInfo
	uid int
}

func (o owned) Sys() any { return &syscall.Stat_t{Uid: uint32(o.uid)} }

// TestWhoMayOwnAPolicy: the agent's user, say, could write itself another one.
func TestWhoMayOwnAPolicy(t *testing.T) {
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, os.Geteuid() + 997: false} {
		if got := mayOwn(owned{uid: uid}); got != want {
			t.Errorf("user %d: %v", uid, got)
		}
	}
}
