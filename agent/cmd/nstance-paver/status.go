package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"nstance.dev/agent/paver/host"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/report"
	"nstance.dev/agent/paver/socket"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func statusFlags(flags *flag.FlagSet) func(context.Context, config, io.Writer, *slog.Logger) error {
	output := flags.String("o", "text", "text or json")
	return func(ctx context.Context, c config, out io.Writer, log *slog.Logger) error {
		s, err := c.status(ctx, log)
		if err != nil {
			return err
		}
		return show(out, s, *output)
	}
}

// status asks the paver that runs on this host. Where none does, it is made from the journal and
// from what runs.
func (c config) status(ctx context.Context, log *slog.Logger) (*nstancev1.MachineStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if client, err := socket.Dial(ctx, c.socket, version); err == nil {
		defer client.Close() //nolint:errcheck // it was read from alone
		return client.Next(ctx)
	}
	j, _, err := c.journal().Load()
	if err != nil {
		return nil, err
	}
	run, _, err := c.runnerFor(ctx, func(slot journal.Slot) journal.Leader { return j.Contents[slot].Leader })
	if err != nil {
		return nil, err
	}
	seen, err := host.New(host.Options{Dir: c.dir, Machines: c.machines, Runner: run, Log: log}).Observe(ctx, false)
	if err != nil {
		return nil, err
	}
	in := report.Input{View: transition.View{Journal: j}, Slots: map[journal.Slot]report.Slot{}, Version: version, Now: time.Now()}
	for slot, s := range seen {
		in.Slots[slot] = report.Slot{Observed: s.Observed, Exists: s.Exists}
	}
	s := report.Status(in)
	s.Problems = append(s.Problems, &nstancev1.MachineProblem{Reason: "NotRunning", Message: "no nstance-paver works on this host; start it with `systemctl start nstance-paver`"})
	return s, nil
}

// word is the last part of an enum's name, in small letters.
func word(name, prefix string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, prefix), "_", " "))
}

func stageWord(s nstancev1.MachineStage) string { return word(s.String(), "MACHINE_STAGE_") }

// progress is a report in a line.
func progress(s *nstancev1.MachineStatus) string {
	line := fmt.Sprintf("epoch %d: %s", s.GetEpoch(), stageWord(s.GetStage()))
	if p := s.GetProgress(); p != nil {
		line += fmt.Sprintf(", %s: %d MB", p.GetWhat(), p.GetDoneBytes()>>20)
		if p.GetTotalBytes() > 0 {
			line += fmt.Sprintf(" of %d", p.GetTotalBytes()>>20)
		}
	}
	if s.GetAttempts() > 0 {
		line += fmt.Sprintf(", %d failed: %s", s.GetAttempts(), s.GetLastError())
	}
	return line
}

// show prints a report.
func show(out io.Writer, s *nstancev1.MachineStatus, output string) error {
	switch output {
	case "json":
		text, err := protojson.MarshalOptions{Multiline: true}.Marshal(s)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, string(text))
		return err
	case "text":
	default:
		return fmt.Errorf("%w: -o: %q must be one of text and json", errUsage, output)
	}
	fmt.Fprintln(out, progress(s))
	if f := s.GetFailure(); f != nil {
		fmt.Fprintf(out, "failed: epoch %d in %s: %s: %s (%s)\n", f.GetEpoch(), stageWord(f.GetStage()), f.GetReason(), f.GetMessage(),
			word(f.GetOutcome().String(), "MACHINE_FAILURE_OUTCOME_"))
	}
	err := showSlots(out, s)
	for _, c := range s.GetPreflight() {
		if c.GetResult() != nstancev1.PreflightResult_PREFLIGHT_RESULT_PASSED {
			fmt.Fprintf(out, "preflight: %s %s: %s\n", c.GetId(), word(c.GetResult().String(), "PREFLIGHT_RESULT_"), c.GetMessage())
		}
	}
	for _, d := range s.GetDrift() {
		fmt.Fprintf(out, "drift: %s %s\n", d.GetPath(), word(d.GetKind().String(), "MACHINE_DRIFT_KIND_"))
	}
	if b := s.GetPrebuild(); b != nil {
		fmt.Fprintf(out, "prebuild: %s-v%d %s: %s", b.GetConfiguration().GetName(), b.GetConfiguration().GetVersion(),
			word(b.GetScope().String(), "MACHINE_PREBUILD_SCOPE_"), word(b.GetState().String(), "MACHINE_PREBUILD_STATE_"))
		if b.GetLastError() != "" {
			fmt.Fprintf(out, ": %s", b.GetLastError())
		}
		fmt.Fprintln(out)
	}
	for _, o := range s.GetOperations() {
		fmt.Fprintf(out, "operation: %s %s: %s", o.GetName(), o.GetId(), word(o.GetState().String(), "MACHINE_OPERATION_STATE_"))
		for _, part := range []string{o.GetReason(), o.GetMessage()} {
			if part != "" {
				fmt.Fprintf(out, ": %s", part)
			}
		}
		fmt.Fprintln(out)
	}
	for _, p := range s.GetProblems() {
		fmt.Fprintf(out, "problem: %s: %s\n", p.GetReason(), p.GetMessage())
	}
	if s.GetCredentialNeeded() {
		err = errors.Join(err, write(out, "a credential is needed to go on\n"))
	}
	return err
}

// showSlots prints what stands in each slot.
func showSlots(out io.Writer, s *nstancev1.MachineStatus) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SLOT\tSTATE\tVERSION\tEPOCH\tBOOT ID\t")
	for _, slot := range s.GetSlots() {
		version := "-"
		if c := slot.GetConfiguration(); c != nil {
			version = fmt.Sprintf("%s-v%d", c.GetName(), c.GetVersion())
		}
		active := ""
		if slot.GetName() == s.GetActiveSlot() {
			active = " (active)"
		}
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%d\t%s\t\n", slot.GetName(), active, word(slot.GetState().String(), "MACHINE_SLOT_STATE_"), version, slot.GetEpoch(), cmp.Or(slot.GetBootId(), "-"))
	}
	return table.Flush()
}

func write(out io.Writer, text string) error {
	_, err := io.WriteString(out, text)
	return err
}
