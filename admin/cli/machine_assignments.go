package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

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
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(env, cmd)
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

// holdReasons are what a machine may be on hold for.
var holdReasons = []string{"reboot", "repave", "power"}

// holdFlags are those of the commands about holds.
type holdFlags struct {
	format output.Format
	dryRun bool
	reason string
}

func (f *holdFlags) add(cmd *cobra.Command) {
	addOutputFlag(cmd, &f.format)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(holdReasons, cobra.ShellCompDirectiveNoFileComp))
}

// check reports a reason that is none.
func (f *holdFlags) check() error {
	if f.reason != "" && !slices.Contains(holdReasons, f.reason) {
		return usagef("--reason %q must be one of %s", f.reason, strings.Join(holdReasons, ", "))
	}
	return nil
}

func newMachineHoldCommand(env *Env) *cobra.Command {
	f := &holdFlags{}
	var span time.Duration
	cmd := &cobra.Command{
		Use:   "hold MACHINE...",
		Short: "Keep machines from being replaced while they are worked on",
		Long: `Keep machines from being replaced while they are worked on. A MACHINE is named by
the id of its instance, which is the name of its HostMachine too. Until the hold
ends, missing reports and a machine that is switched off are no failure, the
machine counts as running, and it isn't replaced for its age or its configuration.
What the provider takes back, what is too old by force and what a user deletes goes
nevertheless.

A hold ends by itself: for a reboot after 15m at most, for a repave after 45m, for
power after what the template of the instance allows (machine.max_hold, 24h by
default). Holding a machine again for the same reason moves the end, but not beyond
that. Operations put the machines on hold that they are about; this command is for
work that is done by hand.`,
		Example: `  nstance-admin machine hold knd068a3cp3thz5z2mv1gejwftabc --reason power --for 2h
  nstance-admin machine hold knd068a3cp3thz5z2mv1gejwftabc --reason reboot --dry-run`,
		Args: usedArgs,
	}
	flags := addShardFlags(env, cmd)
	cmd.ValidArgsFunction = completeInstances(env, flags)
	cmd.Flags().StringVar(&f.reason, "reason", "", "what for: reboot, repave or power")
	cmd.Flags().DurationVar(&span, "for", 0, "how long; 0: as long as the server allows")
	_ = cmd.MarkFlagRequired("reason")
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if span < 0 {
			return usagef("--for %v is negative", span)
		}
		return changeHolds(cmd.Context(), env, flags, f, args, func(ctx context.Context, s *shard, in *nstancev1.InstanceStatus) error {
			hold := &nstancev1.Hold{Reason: f.reason}
			if span > 0 {
				hold.Until = timestamppb.New(env.Now().Add(span))
			}
			in.Hold = hold
			if f.dryRun {
				return nil
			}
			var err error
			in.Hold, err = s.api.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: in.GetInstanceId(), Reason: f.reason, Until: hold.GetUntil()})
			return err
		})
	}
	return cmd
}

func newMachineUnholdCommand(env *Env) *cobra.Command {
	f := &holdFlags{}
	cmd := &cobra.Command{
		Use:   "unhold MACHINE...",
		Short: "End the holds of machines",
		Long: `End the holds of machines: from now on they are judged as all others are. One that is
switched off is replaced, one that is silent when three reports are missing from now.
With --reason a hold for another reason stays.`,
		Example: `  nstance-admin machine unhold knd068a3cp3thz5z2mv1gejwftabc
  nstance-admin machine unhold knd068a3cp3thz5z2mv1gejwftabc --reason power`,
		Args: usedArgs,
	}
	flags := addShardFlags(env, cmd)
	cmd.ValidArgsFunction = completeInstances(env, flags)
	cmd.Flags().StringVar(&f.reason, "reason", "", "only a hold for this: reboot, repave or power")
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return changeHolds(cmd.Context(), env, flags, f, args, func(ctx context.Context, s *shard, in *nstancev1.InstanceStatus) error {
			if f.reason == "" || f.reason == in.GetHold().GetReason() {
				in.Hold = nil
			}
			if f.dryRun {
				return nil
			}
			_, err := s.api.ClearHold(ctx, &nstancev1.ClearHoldRequest{InstanceId: in.GetInstanceId(), Reason: f.reason})
			return err
		})
	}
	return cmd
}

// changeHolds does something about the hold of each machine, which change notes in what is
// known of it, and shows the machines afterwards.
func changeHolds(ctx context.Context, env *Env, flags *shardFlags, f *holdFlags, ids []string,
	change func(context.Context, *shard, *nstancev1.InstanceStatus) error,
) error {
	items, err := gather(ctx, env, flags, func(ctx context.Context, s *shard) ([]output.Item[*nstancev1.InstanceStatus], error) {
		var done []output.Item[*nstancev1.InstanceStatus]
		var failed failures
		for _, id := range ids {
			in, err := s.api.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: id})
			if err == nil {
				err = change(ctx, s, in)
			}
			switch {
			case status.Code(err) == codes.Unimplemented:
				failed.add(errors.New("the server knows no holds; upgrade it"))
			case err != nil:
				failed.add(fmt.Errorf("machine %s: %w", id, err))
			default:
				done = append(done, itemOf(s, in))
			}
		}
		return done, failed.err()
	})
	if f.dryRun && len(items) > 0 {
		fmt.Fprintln(env.Err, "dry run: nothing was done")
	}
	return printList(env.Out, f.format, holdView(env.Now), items, err)
}

func holdView(now func() time.Time) output.View[*nstancev1.InstanceStatus] {
	type column = output.Column[*nstancev1.InstanceStatus]
	return output.View[*nstancev1.InstanceStatus]{
		Name: (*nstancev1.InstanceStatus).GetInstanceId,
		Columns: []column{
			{Header: "MACHINE", Value: (*nstancev1.InstanceStatus).GetInstanceId},
			{Header: "GROUP", Value: (*nstancev1.InstanceStatus).GetGroup},
			{Header: "STATUS", Value: instanceStatus},
			{Header: "HOLD", Value: func(i *nstancev1.InstanceStatus) string { return i.GetHold().GetReason() }},
			{Header: "UNTIL", Value: func(i *nstancev1.InstanceStatus) string { return clock(i.GetHold().GetUntil()) }},
			{Header: "SINCE", Wide: true, Value: func(i *nstancev1.InstanceStatus) string { return clock(i.GetHold().GetSince()) }},
			{Header: "SEEN", Wide: true, Value: func(i *nstancev1.InstanceStatus) string { return age(i.GetLastSeen(), now()) }},
		},
	}
}
