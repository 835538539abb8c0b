package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newInstanceDeleteCommand(env *Env, flags *shardFlags) *cobra.Command {
	var request nstancev1.DeleteInstanceRequest
	cmd := &cobra.Command{
		Use:   "delete INSTANCE...",
		Short: "Delete instances",
		Long: `Delete instances. A managed one is replaced by its group, unless
--decrement-size makes the group smaller by it. To repeat the command does no
harm: the size is lowered once per instance.

With --wait the command ends once the instances are gone and their groups are
complete again.`,
		Example: `  nstance-admin instance delete knc068a3cp3thz5z2mv1gejwftabc
  nstance-admin instance delete knc068a3cp3thz5z2mv1gejwftabc --replace-first --wait`,
		Args:              usedArgs,
		ValidArgsFunction: completeInstances(env, flags),
	}
	f := cmd.Flags()
	f.BoolVar(&request.DecrementSize, "decrement-size", false, "make the group smaller instead of replacing the instance")
	f.BoolVar(&request.SkipDrain, "skip-drain", false, "do not wait for the work to leave the instance")
	f.BoolVar(&request.ReplaceFirst, "replace-first", false, "delete it only when its replacement has registered")
	cmd.MarkFlagsMutuallyExclusive("decrement-size", "replace-first")
	how := addEndingFlags(cmd)
	waiting := addWaitFlag(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		waiting.apply(cmd)
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			return deleteInstances(ctx, env, s, args, &request, how, waiting)
		})
	}
	return cmd
}

// deleteInstances condemns all instances before it waits for any.
func deleteInstances(ctx context.Context, env *Env, s *shard, ids []string, request *nstancev1.DeleteInstanceRequest, how *changeFlags, waiting *waitFlag) error {
	var failed failures
	if how.dryRun {
		return showInstances(ctx, env, s, ids, ending(request))
	}
	if err := how.confirm(env, "%s%s: %s.", s.prefix(), strings.Join(ids, ", "), ending(request)); err != nil {
		return err
	}
	var condemned []condemnedInstance
	for _, id := range ids {
		group, err := deleteInstance(ctx, env, s, id, request)
		failed.add(err)
		if err == nil {
			condemned = append(condemned, condemnedInstance{id, group})
		}
	}
	if waiting.wait {
		failed.add(awaitEnds(ctx, env, s, condemned, waiting))
	}
	return failed.err()
}

// condemnedInstance is one that was condemned, and its group if it is managed.
type condemnedInstance struct{ id, group string }

// awaitEnds waits until instances are gone and their groups complete again. It says of each instance that it is gone, whatever
// has become of the others. A group's error names those of its instances that are not.
func awaitEnds(ctx context.Context, env *Env, s *shard, condemned []condemnedInstance, waiting *waitFlag) error {
	var groups, ends []wait.Goal
	for _, in := range condemned {
		ends = append(ends, wait.Goal{Gone: []string{in.id}})
		i := slices.IndexFunc(groups, func(g wait.Goal) bool { return g.Group == in.group })
		switch {
		case in.group == "":
		case i < 0:
			groups = append(groups, wait.Goal{Group: in.group, Gone: []string{in.id}})
		default:
			groups[i].Gone = append(groups[i].Gone, in.id)
		}
	}
	errs := waiting.each(ctx, env, s, slices.Concat(groups, ends)) // what groups lack is shown first
	var failed failures
	var last error
	for i, err := range errs {
		switch {
		case err == nil && i >= len(groups):
			fmt.Fprintf(env.Out, "%sinstance %s: gone\n", s.prefix(), condemned[i-len(groups)].id)
		case err == nil, i >= len(groups) && condemned[i-len(groups)].group != "":
		case last == nil || !errors.Is(err, last): // what ended all waits is said once
			failed.add(err)
			last = err
		}
	}
	return failed.err()
}

// deleteInstance condemns one instance, and returns its group; "" if it is not managed.
func deleteInstance(ctx context.Context, env *Env, s *shard, id string, how *nstancev1.DeleteInstanceRequest) (group string, err error) {
	instance, err := s.api.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: id})
	switch {
	case err == nil && !instance.GetOnDemand():
		group = instance.GetGroup()
	case err != nil && status.Code(err) != codes.NotFound:
		return "", fmt.Errorf("instance %s: %w", id, err)
	}
	response, err := s.api.DeleteInstance(ctx, &nstancev1.DeleteInstanceRequest{
		InstanceId: id, DecrementSize: how.GetDecrementSize(), SkipDrain: how.GetSkipDrain(), ReplaceFirst: how.GetReplaceFirst(),
	})
	if err != nil {
		return "", fmt.Errorf("instance %s: %w", id, err)
	}
	becomes := response.GetStatus()
	if becomes == "deleting" && how.GetReplaceFirst() {
		becomes = "being replaced"
	}
	fmt.Fprintf(env.Out, "%sinstance %s: %s\n", s.prefix(), id, becomes)
	return group, nil
}

// ending says what becomes of instances that are deleted.
func ending(request *nstancev1.DeleteInstanceRequest) string {
	switch {
	case request.GetDecrementSize():
		return "deleted for good, and the group is smaller by it"
	case request.GetReplaceFirst():
		return "deleted once its replacement is ready"
	default:
		return "deleted, and replaced by its group if it is managed"
	}
}

// showInstances says of instances what would become of them. One that does not exist
// does not keep the others back.
func showInstances(ctx context.Context, env *Env, s *shard, ids []string, would string) error {
	var failed failures
	for _, id := range ids {
		in, err := s.api.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: id})
		if err != nil {
			failed.add(fmt.Errorf("instance %s: %w", id, err))
			continue
		}
		fmt.Fprintf(env.Out, "%sinstance %s: %s in group %s, would be %s\n", s.prefix(), id, instanceStatus(in), in.GetGroup(), would)
	}
	return failed.err()
}
