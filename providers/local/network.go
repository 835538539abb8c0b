package local

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"nstance.dev/server/driver"
)

// AssignLeaderNetwork writes the leader's addresses to leader.json. The file is
// the address that moves: agents and CLI contexts read it whenever they dial.
func (d *Driver) AssignLeaderNetwork(ctx context.Context, addrs driver.Addresses) error {
	const op = "assign-leader-network"
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	data, err := json.MarshalIndent(addrs, "", "  ")
	if err != nil {
		return driver.Fail(driver.Invalid, op, err)
	}
	path := filepath.Join(d.opts.Dir, leaderFile)
	if err := renameio.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	return nil
}

// ReleaseLeaderNetwork does nothing: the next leader overwrites the file, and
// until then its readers are no better off without it.
func (d *Driver) ReleaseLeaderNetwork(context.Context) error { return nil }

// SelfID returns the name of this box.
func (d *Driver) SelfID(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", driver.Fail(driver.Transient, "self-id", err)
	}
	name, err := os.Hostname()
	if err != nil {
		return "", driver.Fail(driver.Transient, "self-id", err)
	}
	return name, nil
}
