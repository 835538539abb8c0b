package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// ofDemand makes a command that prints a list out of what demand mode knows of the tenant's cluster.
func ofDemand[T proto.Message](env *Env, cmd *cobra.Command, view func(now func() time.Time) output.View[T], list func(*nstancev1.GetDemandResponse) []T) *cobra.Command {
	var format output.Format
	flags := addShardFlags(env, cmd)
	cmd.Args, cmd.ValidArgsFunction = usedArgs, cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		items, err := gather(cmd.Context(), env, flags, func(ctx context.Context, s *shard) ([]output.Item[T], error) {
			demand, err := s.api.GetDemand(ctx, &nstancev1.GetDemandRequest{})
			if err != nil {
				return nil, err
			}
			if !demand.GetConnected() {
				fmt.Fprintf(env.Err, "%sthe cluster's operator has no session with the shard: what it needs now is not known\n", s.prefix())
			}
			var items []output.Item[T]
			for _, one := range list(demand) {
				items = append(items, itemOf(s, one))
			}
			return items, nil
		})
		return printList(env.Out, format, view(env.Now), items, err)
	}
	addListFlags(cmd, &format)
	return cmd
}

func newDemandNeedsCommand(env *Env) *cobra.Command {
	return ofDemand(env, &cobra.Command{
		Use:   "needs",
		Short: "List what the cluster of the tenant needs, and what is missing",
		Long: `List what the Kubernetes cluster of the tenant needs, as its operator has reported
it, in the order in which contested capacity is given. A need is what Pods of one
profile ask for together. MISSING is what no machine serves, nor one that is being
made; REASON says why no more is bought.`,
		Example: `  nstance-admin demand needs
  nstance-admin demand needs --all-shards -o wide`,
	}, needView, (*nstancev1.GetDemandResponse).GetNeeds)
}

func newDemandShortfallsCommand(env *Env) *cobra.Command {
	return ofDemand(env, &cobra.Command{
		Use:   "shortfalls",
		Short: "List the needs of which something is missing, and why",
		Long: `List the needs of the tenant's cluster of which something is missing, with the
reason and what helps. A need for which machines are being made misses nothing.`,
		Example: `  nstance-admin demand shortfalls
  nstance-admin demand shortfalls -o json`,
	}, shortfallView, func(d *nstancev1.GetDemandResponse) []*nstancev1.DemandNeed {
		return slices.DeleteFunc(d.GetNeeds(), func(n *nstancev1.DemandNeed) bool { return len(n.GetMissing()) == 0 })
	})
}

func newDemandMachinesCommand(env *Env) *cobra.Command {
	return ofDemand(env, &cobra.Command{
		Use:   "machines",
		Short: "List the machines that serve the cluster of the tenant",
		Long: `List the machines that are bound to the Kubernetes cluster of the tenant, and those
that are idle and may be used for it alone. NEEDS is how many needs draw from one;
SURPLUS is for how long none has.`,
		Example: `  nstance-admin demand machines
  nstance-admin demand machines -o name`,
	}, demandMachineView, (*nstancev1.GetDemandResponse).GetMachines)
}

func newDemandPlanCommand(env *Env) *cobra.Command {
	return ofDemand(env, &cobra.Command{
		Use:   "plan",
		Short: "List what was decided for the tenant's cluster and is not done yet",
		Long: `List what the shard would do for the Kubernetes cluster of the tenant now, if it were
not paused (nstance-admin pause) and did not rehearse (server.demand.dry_run), and the
machines that are being replaced: by cheaper ones (consolidation), because their group
is made from something else now (drift), or for their age (expiry). A machine that is
replaced waits for those that take its place, then for its drain.`,
		Example: `  nstance-admin demand plan`,
	}, demandDecisionView, (*nstancev1.GetDemandResponse).GetPlanned)
}

func needView(now func() time.Time) output.View[*nstancev1.DemandNeed] {
	type column = output.Column[*nstancev1.DemandNeed]
	return output.View[*nstancev1.DemandNeed]{
		Name: (*nstancev1.DemandNeed).GetId,
		Columns: []column{
			{Header: "NEED", Value: func(n *nstancev1.DemandNeed) string { return shortID(n.GetId()) }},
			{Header: "PRIORITY", Value: func(n *nstancev1.DemandNeed) string { return number(n.GetPriority()) }},
			{Header: "NEEDED", Value: func(n *nstancev1.DemandNeed) string { return amountsText(n.GetAmounts()) }},
			{Header: "MISSING", Value: func(n *nstancev1.DemandNeed) string { return amountsText(n.GetMissing()) }},
			{Header: "REASON", Value: (*nstancev1.DemandNeed).GetReason},
			{Header: "SINCE", Value: func(n *nstancev1.DemandNeed) string { return age(n.GetMissingSince(), now()) }},
			{Header: "UNIT", Wide: true, Value: func(n *nstancev1.DemandNeed) string { return amountsText(n.GetMinUnit()) }},
			{Header: "TOGETHER", Wide: true, Value: (*nstancev1.DemandNeed).GetGroup},
			{Header: "REQUIREMENTS", Wide: true, Value: func(n *nstancev1.DemandNeed) string { return strings.Join(n.GetRequirements(), ", ") }},
		},
	}
}

func shortfallView(now func() time.Time) output.View[*nstancev1.DemandNeed] {
	type column = output.Column[*nstancev1.DemandNeed]
	return output.View[*nstancev1.DemandNeed]{
		Name: (*nstancev1.DemandNeed).GetId,
		Columns: []column{
			{Header: "NEED", Value: func(n *nstancev1.DemandNeed) string { return shortID(n.GetId()) }},
			{Header: "PRIORITY", Value: func(n *nstancev1.DemandNeed) string { return number(n.GetPriority()) }},
			{Header: "MISSING", Value: func(n *nstancev1.DemandNeed) string { return amountsText(n.GetMissing()) }},
			{Header: "SINCE", Value: func(n *nstancev1.DemandNeed) string { return age(n.GetMissingSince(), now()) }},
			{Header: "REASON", Value: (*nstancev1.DemandNeed).GetReason},
			{Header: "WHAT_HELPS", Value: func(n *nstancev1.DemandNeed) string { return remedyOf(n.GetReason()) }},
		},
	}
}

func demandMachineView(now func() time.Time) output.View[*nstancev1.DemandMachine] {
	type column = output.Column[*nstancev1.DemandMachine]
	return output.View[*nstancev1.DemandMachine]{
		Name: (*nstancev1.DemandMachine).GetInstanceId,
		Columns: []column{
			{Header: "INSTANCE", Value: (*nstancev1.DemandMachine).GetInstanceId},
			{Header: "GROUP", Value: (*nstancev1.DemandMachine).GetGroup},
			{Header: "TYPE", Value: (*nstancev1.DemandMachine).GetInstanceType},
			{Header: "CAPACITY", Value: (*nstancev1.DemandMachine).GetCapacityType},
			{Header: "USD/H", Value: func(m *nstancev1.DemandMachine) string { return dollars(m.GetHourlyMicroUsd()) }},
			{Header: "STATE", Value: demandState},
			{Header: "NEEDS", Value: func(m *nstancev1.DemandMachine) string { return number(m.GetNeeds()) }},
			{Header: "SURPLUS", Value: func(m *nstancev1.DemandMachine) string { return age(m.GetSurplusSince(), now()) }},
		},
	}
}

// demandState is the state of a machine, and what is unusual about it.
func demandState(m *nstancev1.DemandMachine) string {
	switch {
	case m.GetLeaving():
		return m.GetState() + " (goes for another reason)"
	case m.GetFixed():
		return m.GetState() + " (of a group with a size)"
	}
	return m.GetState()
}

func demandDecisionView(func() time.Time) output.View[*nstancev1.DemandDecision] {
	type column = output.Column[*nstancev1.DemandDecision]
	return output.View[*nstancev1.DemandDecision]{
		Name: (*nstancev1.DemandDecision).GetInstanceId,
		Columns: []column{
			{Header: "ACTION", Value: (*nstancev1.DemandDecision).GetAction},
			{Header: "INSTANCE", Value: (*nstancev1.DemandDecision).GetInstanceId},
			{Header: "OFFER", Value: (*nstancev1.DemandDecision).GetOffer},
			{Header: "WHY", Value: (*nstancev1.DemandDecision).GetReason},
			{Header: "WAITS_FOR", Value: waitsForText},
		},
	}
}

// waitsForText says what holds a decision up.
func waitsForText(d *nstancev1.DemandDecision) string {
	switch d.GetDisposition() {
	case "suppressed":
		return "the end of a pause"
	case "dry-run":
		return "the end of the dry run"
	case "buying":
		return strings.Join(d.GetReplacements(), ", ")
	case "giving":
		return "its drain"
	}
	return d.GetDisposition()
}

// shortID is as much of the name of a need as tells it from others.
func shortID(id string) string { return id[:min(len(id), 12)] }

// amountsText is a sum of resources on one line: processors in cores or thousandths of one, memory in MiB.
func amountsText(amounts map[string]int64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		n := amounts[name]
		switch {
		case name == "cpu" && n%1000 == 0:
			all = append(all, fmt.Sprintf("cpu %d", n/1000))
		case name == "cpu":
			all = append(all, fmt.Sprintf("cpu %dm", n))
		case name == "memory" || name == "ephemeral-storage":
			all = append(all, fmt.Sprintf("%s %dMi", name, (n+1<<20-1)>>20))
		default:
			all = append(all, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(all, ", ")
}

// remedyOf says what helps where a need is short for a reason.
func remedyOf(reason string) string {
	if text, known := remedies[reason]; known {
		return text
	}
	return "see docs/demand/groups.md"
}

var remedies = map[string]string{
	"NoMatchingOffer":      "no group offers a machine for it: compare demand needs -o wide with demand offers",
	"QuotaExhausted":       "raise server.demand.quota_pools, or the quota at the provider",
	"LimitReached":         "raise max or limits of the groups, or the tenant's quota",
	"RailHeld":             "raise server.demand.max_hourly_spend, or look why creates fail",
	"Cooldown":             "wait: the provider had no room, or machines did not join; offer more types",
	"NoDomain":             "no zone or rack has room for all of it: offer more of one",
	"Skew":                 "the spread forbids more in the domains that have room",
	"GangIncomplete":       "all of its machines have to be there at once: offer enough of them",
	"BootstrapError":       "the operator cannot say what it takes to join: see its log",
	"ConfigurationPending": "its machines wait for a MachineConfiguration: see condition ConfigurationPending of their HostMachines",
	"Parked":               "what was bought did not serve it: see the events of its Pods",
	"Draining":             "wait: the machine that it gets is being drained",
}
