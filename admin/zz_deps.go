package admin

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/goleak"
	_ "google.golang.org/grpc"
	_ "google.golang.org/protobuf/encoding/protojson"
	_ "sigs.k8s.io/yaml"
	_ "golang.org/x/term"
	_ "golang.org/x/sync/errgroup"
	_ "github.com/google/renameio/v2"
	_ "nstance.dev/protos/identity"
)
