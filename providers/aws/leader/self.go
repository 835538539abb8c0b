package leader

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"golang.org/x/sync/singleflight"

	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

// self is the instance that this process runs on, once it is known. Its zero value is
// ready for use.
type self struct {
	id     atomic.Pointer[string] // nil: not known yet
	asking singleflight.Group
}

// metadataTime is how long the metadata service may take, which is a hop away.
const metadataTime = 10 * time.Second

// SelfID asks the instance metadata service, version 2, until it has answered once.
// Who asks at the same time waits for the same answer, each no longer than its own
// context lives.
func (n *Network) SelfID(ctx context.Context) (string, error) {
	const op = "self-id"
	if err := api.Begin(ctx, op); err != nil {
		return "", err
	}
	if id := n.self.id.Load(); id != nil {
		return *id, nil
	}
	answer := n.self.asking.DoChan("instance-id", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), metadataTime)
		defer cancel()
		id, err := n.metadata(ctx, "instance-id")
		if err == nil {
			n.self.id.Store(&id)
		}
		return id, err
	})
	var err error
	select {
	case got := <-answer:
		if got.Err == nil {
			return got.Val.(string), nil //nolint:forcetypeassert // it is what the function above returns
		}
		err = got.Err
	case <-ctx.Done():
		err = ctx.Err()
	}
	return "", driver.Fail(driver.Transient, op, fmt.Errorf("ask the metadata service, which only instances of EC2 have: %w", err))
}

func (n *Network) metadata(ctx context.Context, path string) (text string, err error) {
	out, err := n.api.IMDS.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if err != nil {
		return "", err
	}
	defer func() { _ = out.Content.Close() }()
	data, err := io.ReadAll(out.Content)
	return strings.TrimSpace(string(data)), err
}
