package local

import (
	_ "charm.land/bubbletea/v2"
	_ "charm.land/lipgloss/v2"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/goleak"
	_ "github.com/prometheus/procfs"
	_ "github.com/google/renameio/v2"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/sync/errgroup"
	_ "nstance.dev/protos/identity"
	_ "pgregory.net/rapid"
	_ "google.golang.org/grpc"
)
