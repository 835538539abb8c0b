package identity

import (
	_ "github.com/google/uuid"
	_ "google.golang.org/grpc"
	_ "google.golang.org/protobuf/proto"
	_ "pgregory.net/rapid"
	_ "github.com/google/go-cmp/cmp"
)
