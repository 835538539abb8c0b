package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/providers/local/dev"
	"nstance.dev/server/driver"
)

// demand is what the group of the shard is told: a machine is given back ten seconds after nothing
// needs it, and waits for half a minute to be used again.
const demand = `{"max": 4, "scale_down_delay": "10s", "min_lifetime": "0s", "release_hold": "30s"}`

// shard is the server of the shard.
type shard struct {
	addresses driver.Addresses
	authority string // PEM
	nonce     string // with which the operator registers
}

// startShard starts the server, and returns when it leads.
func (b *box) startShard(ctx context.Context) (*shard, error) {
	var err error
	b.server, err = kube.Run(filepath.Join(b.bin, "nstance-server-local"),
		[]string{"dev", "--dir", b.dir.shard(), "--group", "pool", "--demand", demand, "--plain"}, os.Environ(), b.dir.log("nstance-server"))
	if err != nil {
		return nil, fmt.Errorf("start the shard's server: %w", err)
	}
	err = b.wait(ctx, "the shard's server leads", b.server, func(context.Context) error {
		_, err := os.Stat(filepath.Join(b.dir.shard(), "admin.json")) // written when it does
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &shard{}
	text, err := os.ReadFile(filepath.Join(b.dir.machines(), "leader.json"))
	if err := errors.Join(err, json.Unmarshal(text, &s.addresses)); err != nil {
		return nil, fmt.Errorf("the leader's addresses: %w", err)
	}
	authority, err := os.ReadFile(filepath.Join(b.dir.shard(), "identity", "ca.crt"))
	if err != nil {
		return nil, err
	}
	s.authority = string(authority)
	nonce := exec.CommandContext(ctx, filepath.Join(b.bin, "nstance-admin"), "cluster", "nonce", "--output", "-",
		"--storage-provider", "file", "--storage-bucket", filepath.Join(b.dir.shard(), "bucket"),
		"--key-provider", "file", "--key-source", filepath.Join(b.dir.shard(), "encryption.key"))
	nonce.Stderr = os.Stderr
	token, err := nonce.Output()
	if err != nil {
		return nil, fmt.Errorf("a nonce for the operator: %w", err)
	}
	s.nonce = strings.TrimSpace(string(token))
	return s, nil
}

// values are those of the operator's chart.
func (s *shard) values(apiServer, blob string, addresses [2]string) map[string]any {
	return map[string]any{
		"config": map[string]any{"clusterId": dev.Cluster, "shards": map[string]any{dev.Shard: map[string]any{
			"operator_addr": s.addresses.Operator, "registration_addr": s.addresses.Registration, "zone": "local",
		}}},
		"ca":              map[string]any{"create": true, "pem": s.authority},
		"registration":    map[string]any{"jwt": s.nonce},
		"capi":            map[string]any{"apiServer": apiServer},
		"webhook":         map[string]any{"enabled": false},
		"onDemand":        map[string]any{"mode": "off"},
		"log":             map[string]any{"format": "text"},
		"healthProbeAddr": addresses[0],
		"metrics":         map[string]any{"address": addresses[1]},
		"demand":          map[string]any{"enabled": true, "bootstrapTemplate": blob},
	}
}
