package aws

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"nstance.dev/server/driver"
)

// self is the instance that this process runs on, once it is known.
type self struct {
	mu sync.Mutex
	id string
}

// SelfID asks the instance metadata service, version 2, once.
func (d *Driver) SelfID(ctx context.Context) (string, error) {
	const op = "self-id"
	if err := begin(ctx, op); err != nil {
		return "", err
	}
	d.self.mu.Lock()
	defer d.self.mu.Unlock()
	if d.self.id != "" {
		return d.self.id, nil
	}
	id, err := d.metadata(ctx, "instance-id")
	if err != nil {
		return "", driver.Fail(driver.Transient, op, fmt.Errorf("ask the metadata service, which only instances of EC2 have: %w", err))
	}
	d.self.id = id
	return id, nil
}

func (d *Driver) metadata(ctx context.Context, path string) (text string, err error) {
	out, err := d.imds.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if err != nil {
		return "", err
	}
	defer func() { _ = out.Content.Close() }()
	data, err := io.ReadAll(out.Content)
	return strings.TrimSpace(string(data)), err
}
