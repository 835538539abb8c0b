package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newGroupApplyCommand(env *Env, flags *shardFlags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create or change groups as a file describes them",
		Long: `Create or change groups as a file describes them, in YAML or JSON. A file may
hold several documents. Fields that are left out stay as they are.

  key: web
  config:
    template: worker
    size: 3
    instance_type: t4g.medium
    vars: {region: eu}

Nothing is sent before the whole file has been read without an error.`,
		Example: `  nstance-admin group apply -f web.yaml
  nstance-admin group apply -f - --wait < groups.yaml
  nstance-admin group apply -f web.yaml --dry-run`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addFileFlag(cmd, &file)
	how := addEndingFlags(cmd)
	waiting := addWaitFlag(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		groups, err := readGroups(env, file)
		if err != nil {
			return err
		}
		waiting.apply(cmd)
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			if how.dryRun {
				return diffGroups(ctx, env, s, groups)
			}
			if err := confirmAllSmaller(ctx, env, s, groups, how); err != nil {
				return err
			}
			return applyGroups(ctx, env, s, groups, waiting)
		})
	}
	return cmd
}

// confirmAllSmaller asks on a terminal about each group that becomes smaller.
func confirmAllSmaller(ctx context.Context, env *Env, s *shard, requests []*nstancev1.UpsertGroupRequest, how *changeFlags) error {
	if !how.asks(env) {
		return nil
	}
	for _, request := range requests {
		group, err := findGroup(ctx, s, request.GetKey())
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err == nil {
			err = confirmSmaller(env, s, group, request, how)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyGroups sends all groups before it waits for any, so that they come about
// side by side. One that is refused does not keep the others back.
func applyGroups(ctx context.Context, env *Env, s *shard, groups []*nstancev1.UpsertGroupRequest, waiting *waitFlag) error {
	var failed failures
	var applied []*nstancev1.GroupStatus
	for _, request := range groups {
		group, err := s.api.UpsertGroup(ctx, request)
		if err != nil {
			failed.add(fmt.Errorf("group %s: %w", request.GetKey(), err))
			continue
		}
		fmt.Fprintf(env.Out, "%sgroup %s: applied, size %d\n", s.prefix(), group.GetKey(), group.GetSize())
		applied = append(applied, group)
	}
	for _, group := range applied {
		size := group.GetSize()
		if err := waiting.until(ctx, env, s, wait.Goal{Group: group.GetKey(), Size: &size}); err != nil {
			failed.add(err)
		} else if waiting.wait {
			fmt.Fprintf(env.Out, "%sgroup %s: %d running\n", s.prefix(), group.GetKey(), size)
		}
	}
	return failed.err()
}
