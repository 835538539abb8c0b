package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/logs"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/runner/leader"
)

// Journalctl runs journalctl in a machine, or on the host if slot is None, and has it write to out.
type Journalctl func(ctx context.Context, slot journal.Slot, out io.Writer, args ...string) error

// Collect returns what the journals of the host and of a machine have. One of the two is enough: on a host without systemd the other one
// has none. What a unit is called comes to journalctl as an argument, and no shell reads it.
func (e *Executor) Collect(ctx context.Context, r operation.Record, slot journal.Slot, secrets []string) (logs.Packed, error) {
	args := []string{
		"--quiet", "--no-pager", "--output=json", "--output-fields=" + logs.Fields, "--lines=" + strconv.Itoa(logs.MostEntries),
		"--since=@" + strconv.FormatInt(r.Since().Unix(), 10),
	}
	for _, unit := range r.Units() {
		args = append(args, "--unit="+unit)
	}
	places := []struct {
		slot  journal.Slot
		title string
	}{{journal.None, "journal of the host"}}
	if slot != journal.None {
		places = append(places, struct {
			slot  journal.Slot
			title string
		}{slot, "journal of machine " + e.opts.Name(slot)})
	}
	var sections []*logs.Section
	var failed []error
	for _, place := range places {
		s := logs.NewSection(place.title, secrets)
		if s.Err = e.opts.Journalctl(ctx, place.slot, s, args...); s.Err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", place.title, s.Err))
		}
		s.Close()
		sections = append(sections, s)
	}
	if len(failed) == len(sections) {
		return logs.Packed{}, errors.Join(failed...)
	}
	units := "all units"
	if named := r.Units(); len(named) > 0 {
		units = strings.Join(named, ", ")
	}
	title := fmt.Sprintf("operation %s: logs since %s, %s", r.ID, r.Since().UTC().Format(time.RFC3339), units)
	return logs.Pack(title, logs.MostPacked, sections...)
}

// journalctl is [Journalctl] of this host.
func (e *Executor) journalctl(ctx context.Context, slot journal.Slot, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "journalctl", args...) //nolint:gosec // the arguments are checked, and no shell reads them
	if slot != journal.None {
		state, err := e.opts.Runner.State(ctx, slot)
		if err != nil {
			return err
		}
		if cmd, err = leader.Command(ctx, state.Leader, append([]string{"journalctl"}, args...)); err != nil {
			return err
		}
	}
	cmd.Stdout = out
	said, err := command.RunFor(cmd)
	if err == nil && said.Code != 0 {
		err = fmt.Errorf("journalctl: exit code %d: %.256s", said.Code, strings.TrimSpace(string(said.Text)))
	}
	return err
}
