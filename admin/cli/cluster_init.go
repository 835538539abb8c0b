package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/clusterops"
)

func newClusterInitCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var id string
	var dry bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create the CA and the nonce key of a cluster, if it has none",
		Long: `Make the authority and the key of nonces of a cluster, each where it is absent, as
its first server would. It works in an empty bucket, before there is any server,
changes nothing that is there, and may be repeated.`,
		Example: `  nstance-admin cluster init --storage-provider file --storage-bucket .dev/bucket \
    --key-provider file --key-source .dev/encryption.key --cluster-id dev`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return initCluster(cmd.Context(), env, settings, id, dry)
		},
	}
	cmd.Flags().StringVar(&id, "cluster-id", "", "`ID` of the cluster")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be made")
	_ = cmd.MarkFlagRequired("cluster-id")
	return cmd
}

func initCluster(ctx context.Context, env *Env, settings *clusterops.Settings, id string, dry bool) error {
	cluster, _, err := openCluster(ctx, settings, id)
	if err != nil {
		return err
	}
	if dry {
		return planInit(ctx, env, cluster, id)
	}
	done, err := cluster.Init(ctx, id, env.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "authority of cluster %s: %s, SHA-256 %s, good until %s\n",
		id, madeOrFound(done.CAMade), done.Fingerprint, done.NotAfter.UTC().Format(time.RFC3339))
	fmt.Fprintf(env.Out, "nonce key of cluster %s: %s\n", id, madeOrFound(done.NonceMade))
	return nil
}

func madeOrFound(made bool) string {
	if made {
		return "made"
	}
	return "was there"
}

func planInit(ctx context.Context, env *Env, cluster *clusterops.Cluster, id string) error {
	plan, err := cluster.PlanInit(ctx, id, env.Now())
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		made bool
	}{{"authority", plan.CAMade}, {"nonce key", plan.NonceMade}} {
		what := "is there"
		if part.made {
			what = "would be made"
		}
		fmt.Fprintf(env.Out, "%s of cluster %s: %s\n", part.name, id, what)
	}
	fmt.Fprintln(env.Err, "dry run: nothing was done")
	return nil
}
