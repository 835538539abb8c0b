package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newGroupConfirmCommand(env *Env, flags *shardFlags) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "confirm [GROUP...]",
		Short: "Unblock groups that were rebuilt after their group file was lost",
		Long: `Confirm groups whose settings were rebuilt after the server had lost its group
file; without a name all that wait. Look at them first ("group list -o wide",
"group get"): until then nothing is created, deleted or replaced in them, and
afterwards they are brought to the size and settings that are shown. To change a
group confirms it, too.`,
		Example: `  nstance-admin group confirm web
  nstance-admin group confirm --tenant prod`,
		ValidArgsFunction: completeGroups(env, flags),
	}
	how := addDryRunFlag(cmd)
	cmd.Flags().StringVar(&tenant, "tenant", "", "whose groups, for administrators; default: the caller's")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := &nstancev1.ConfirmGroupsRequest{Keys: args}
		if tenant != "" {
			req.Tenant = &tenant
		}
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			if how.dryRun {
				return showRebuilt(ctx, env, s, args, tenant)
			}
			response, err := s.api.ConfirmGroups(ctx, req)
			if err != nil {
				return err
			}
			if len(response.GetConfirmed()) == 0 {
				fmt.Fprintf(env.Out, "%sno group waits to be confirmed\n", s.prefix())
				return nil
			}
			fmt.Fprintf(env.Out, "%sconfirmed: %s\n", s.prefix(), strings.Join(response.GetConfirmed(), ", "))
			return nil
		})
	}
	return cmd
}

// showRebuilt lists the groups that would be confirmed.
func showRebuilt(ctx context.Context, env *Env, s *shard, keys []string, tenant string) error {
	if tenant != "" {
		return usagef("--dry-run shows the caller's own groups; leave --tenant out")
	}
	items, err := listGroups(ctx, s)
	if err != nil {
		return err
	}
	for _, item := range items {
		if g := item.Message; g.GetRebuilt() && (len(keys) == 0 || slices.Contains(keys, g.GetKey())) {
			fmt.Fprintf(env.Out, "%sgroup %s: would be confirmed with size %s\n", s.prefix(), g.GetKey(), sizeOf(g))
		}
	}
	return nil
}
