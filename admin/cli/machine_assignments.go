package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newMachineAssignmentsCommand(env *Env) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "assignments",
		Short: "List what the hosts of the shards were told to build their nodes from",
		Long: `List what the hosts of the shards were told to build their nodes from, as the servers
have it stored, with how far the hosts say they are. CONFIRMED is when the node of
the machine was seen to run; until then the host is building, or something keeps it
from joining: -o wide says what the host reports. A host without an assignment is
listed if it could build a node machine.`,
		Example: `  nstance-admin machine assignments
  nstance-admin machine assignments --all-shards -o wide
  nstance-admin machine assignments -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		items, err := gather(cmd.Context(), env, flags, assignmentsOf)
		return printList(env.Out, format, assignmentView(env.Now), items, err)
	}
	addOutputFlag(cmd, &format)
	return cmd
}

// assignmentsOf reads what a server knows of the machines of a shard: what a watch begins with.
func assignmentsOf(ctx context.Context, s *shard) ([]output.Item[*nstancev1.MachineEvent], error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.api.WatchMachines(ctx, &nstancev1.WatchMachinesRequest{})
	if err != nil {
		return nil, err
	}
	var items []output.Item[*nstancev1.MachineEvent]
	for {
		event, err := stream.Recv()
		switch {
		case status.Code(err) == codes.Unimplemented:
			return nil, errors.New("the server knows no host machines; upgrade it")
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case event.GetType() == "snapshot_end":
			return items, nil
		case event.GetType() == "machine":
			items = append(items, itemOf(s, event))
		}
	}
}

func assignmentView(now func() time.Time) output.View[*nstancev1.MachineEvent] {
	type column = output.Column[*nstancev1.MachineEvent]
	of := func(value func(*nstancev1.AssignmentState) string) func(*nstancev1.MachineEvent) string {
		return func(e *nstancev1.MachineEvent) string {
			if e.GetMachine().GetAssignment() == nil {
				return ""
			}
			return value(e.GetMachine().GetAssignment())
		}
	}
	reported := func(value func(*nstancev1.MachineStatus) string) func(*nstancev1.MachineEvent) string {
		return func(e *nstancev1.MachineEvent) string { return value(e.GetMachine().GetStatus()) }
	}
	return output.View[*nstancev1.MachineEvent]{
		Name: (*nstancev1.MachineEvent).GetInstanceId,
		Columns: []column{
			{Header: "INSTANCE", Value: (*nstancev1.MachineEvent).GetInstanceId},
			{Header: "MACHINE", Value: of((*nstancev1.AssignmentState).GetMachineName)},
			{Header: "EPOCH", Value: of(func(a *nstancev1.AssignmentState) string { return strconv.FormatInt(a.GetEpoch(), 10) })},
			{Header: "MODE", Value: of(func(a *nstancev1.AssignmentState) string { return word("MACHINE_MODE_", a.GetMode().String()) })},
			{Header: "CONFIG", Value: of(func(a *nstancev1.AssignmentState) string { return a.GetConfiguration().GetName() })},
			{Header: "VERSION", Value: of(func(a *nstancev1.AssignmentState) string {
				return numberOrNothing(int64(a.GetConfiguration().GetVersion()))
			})},
			{Header: "HASH", Value: of(func(a *nstancev1.AssignmentState) string { return shortHash(a.GetConfiguration().GetHash()) })},
			{Header: "AGE", Value: of(func(a *nstancev1.AssignmentState) string { return age(a.GetAt(), now()) })},
			{Header: "CONFIRMED", Value: of(func(a *nstancev1.AssignmentState) string { return confirmedSince(a, now()) })},
			{Header: "CONNECTED", Value: func(e *nstancev1.MachineEvent) string { return strconv.FormatBool(e.GetMachine().GetConnected()) }},
			{Header: "STAGE", Value: reported(func(s *nstancev1.MachineStatus) string { return word("MACHINE_STAGE_", s.GetStage().String()) })},
			{Header: "HOST_EPOCH", Wide: true, Value: reported(func(s *nstancev1.MachineStatus) string { return numberOrNothing(s.GetEpoch()) })},
			{Header: "NODE_UID", Wide: true, Value: of(func(a *nstancev1.AssignmentState) string { return a.GetConfirmed().GetNodeUid() })},
			{Header: "CREDENTIAL", Wide: true, Value: of(credentialState)},
			{Header: "REPORTED", Wide: true, Value: func(e *nstancev1.MachineEvent) string { return age(e.GetMachine().GetReportedAt(), now()) }},
			{Header: "ERROR", Wide: true, Value: reported((*nstancev1.MachineStatus).GetLastError)},
		},
	}
}

// confirmedSince says when the node of an assignment was seen, or that it was not.
func confirmedSince(a *nstancev1.AssignmentState, now time.Time) string {
	if a.GetConfirmed() == nil {
		return "no"
	}
	return age(a.GetConfirmedAt(), now) + " ago"
}

// credentialState says whether the leader has what the machine joins with.
func credentialState(a *nstancev1.AssignmentState) string {
	switch {
	case a.GetCredentialMissing():
		return "missing"
	case a.GetCredentialSequence() > 0:
		return fmt.Sprint("number ", a.GetCredentialSequence())
	}
	return ""
}

// word is the value of an enumeration as it is shown; empty for the one that says nothing.
func word(prefix, name string) string {
	text := strings.TrimPrefix(name, prefix)
	if text == "UNSPECIFIED" {
		return ""
	}
	return strings.ToLower(strings.ReplaceAll(text, "_", "-"))
}

// numberOrNothing is a number from 1.
func numberOrNothing(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// shortHash is the beginning of a hash.
func shortHash(hash string) string {
	_, digits, _ := strings.Cut(hash, ":")
	return digits[:min(len(digits), 12)]
}
