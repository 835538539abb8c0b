package agent

import (
	_ "github.com/golang-jwt/jwt/v5"
	_ "github.com/google/go-cmp/cmp"
	_ "go.uber.org/goleak"
	_ "google.golang.org/grpc"
	_ "google.golang.org/protobuf/proto"
	_ "github.com/prometheus/procfs"
	_ "github.com/google/renameio/v2"
	_ "golang.org/x/sys/unix"
	_ "nstance.dev/protos/identity"
	_ "pgregory.net/rapid"
	_ "golang.org/x/sync/errgroup"
)
