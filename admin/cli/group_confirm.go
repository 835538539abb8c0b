package cli

import (
	"context"
	"fmt"
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
	cmd.Flags().StringVar(&tenant, "tenant", "", "whose groups, for administrators; default: the caller's")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := &nstancev1.ConfirmGroupsRequest{Keys: args}
		if tenant != "" {
			req.Tenant = &tenant
		}
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
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
