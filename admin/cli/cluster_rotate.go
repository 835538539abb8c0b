package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/clusterops"
)

// Keys that can be changed.
const (
	encryptionKey = "encryption"
	nonceKey      = "nonce"
)

func newClusterRotateKeyCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var which string
	var dry bool
	rotation := clusterops.NonceRotation{}
	cmd := &cobra.Command{
		Use:   "rotate-key",
		Short: "Change a key of a cluster while its servers run",
		Long: `Change a key of a cluster while its servers run.

With "--key encryption" every secret in object storage is sealed again with the
first key of the source, and read back. Before, the source must hold two keys, the
new one in the first line and the old one in the second, for this command and for
every server. After it, the old key is needed no more.

With "--key nonce" a new key is announced to the servers, and signs once all of
them have had --settle to learn it. Nonces of the old key are good for --keep-old
longer; after that "--key nonce --prune" removes it, or the next change does.

Both may be interrupted, and go on when they are called again.`,
		Example: `  nstance-admin cluster rotate-key --key nonce --storage-provider file --storage-bucket .dev/bucket \
    --key-provider file --key-source .dev/encryption.key`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return rotateKey(cmd.Context(), env, settings, which, rotation, dry)
		},
	}
	f := cmd.Flags()
	f.StringVar(&which, "key", "", "which `KEY`: encryption or nonce")
	f.DurationVar(&rotation.Settle, "settle", 3*time.Minute, "how long servers have to learn a new nonce key; they look once a minute")
	f.DurationVar(&rotation.Keep, "keep-old", 24*time.Hour, "how long an old nonce key still verifies: longer than any nonce lives")
	f.BoolVar(&rotation.PruneOnly, "prune", false, "only remove nonce keys that are old enough")
	f.BoolVar(&dry, "dry-run", false, "only say what would be changed")
	_ = cmd.MarkFlagRequired("key")
	_ = cmd.RegisterFlagCompletionFunc("key", cobra.FixedCompletions([]string{encryptionKey, nonceKey}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func rotateKey(ctx context.Context, env *Env, settings *clusterops.Settings, which string, rotation clusterops.NonceRotation, dry bool) error {
	if which != encryptionKey && which != nonceKey {
		return usagef("--key %q must be %s or %s", which, encryptionKey, nonceKey)
	}
	if rotation.Settle < 0 || rotation.Keep < 0 {
		return usagef("--settle and --keep-old must not be negative")
	}
	cluster, err := clusterops.Open(ctx, *settings)
	if err != nil {
		return err
	}
	switch {
	case dry:
		return planRotation(ctx, env, cluster, which, rotation)
	case which == nonceKey:
		return rotateNonce(ctx, env, cluster, rotation)
	}
	count, changed := 0, 0
	err = cluster.RotateEncryption(ctx, func(name string, did bool) {
		count++
		if did {
			changed++
			fmt.Fprintf(env.Out, "%s: sealed with the first key\n", name)
		}
	})
	if err != nil {
		return fmt.Errorf("%w\nKeep the old key: not every secret is sealed with the new one", err)
	}
	fmt.Fprintf(env.Out, "%d of %d secrets changed; the first key opens all of them\n", changed, count)
	return nil
}

// planRotation says what a change of a key would do.
func planRotation(ctx context.Context, env *Env, cluster *clusterops.Cluster, which string, rotation clusterops.NonceRotation) (err error) {
	if which == nonceKey {
		rotation.Now = env.Now
		rotation.Log = func(step string) { fmt.Fprintln(env.Out, step) }
		err = cluster.PlanRotateNonce(ctx, rotation)
	} else {
		count, changes := 0, 0
		err = cluster.PlanRotateEncryption(ctx, func(name string, would bool) {
			count++
			if would {
				changes++
				fmt.Fprintf(env.Out, "%s: would be sealed with the first key\n", name)
			}
		})
		if err == nil {
			fmt.Fprintf(env.Out, "%d of %d secrets would be changed\n", changes, count)
		}
	}
	if err == nil {
		fmt.Fprintln(env.Err, "dry run: nothing was done")
	}
	return err
}

func rotateNonce(ctx context.Context, env *Env, cluster *clusterops.Cluster, rotation clusterops.NonceRotation) error {
	rotation.Now, rotation.Sleep = env.Now, sleep
	rotation.Log = func(step string) { fmt.Fprintln(env.Err, step) }
	keys, err := cluster.RotateNonce(ctx, rotation)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "nonce keys: %d; the first signs, all verify\n", len(keys))
	for i, k := range keys {
		if i > 0 && !k.Retired.IsZero() {
			fmt.Fprintf(env.Out, "key %d can be removed from %s on (--prune)\n", i+1, k.Retired.Add(rotation.Keep).UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// sleep waits for d or the end of ctx, which it reports.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
