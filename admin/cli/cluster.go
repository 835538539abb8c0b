package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/clusterops"
	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

func newClusterCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("cluster", "Work on the storage of a cluster, without any server")
	settings := addClusterFlags(cmd)
	cmd.AddCommand(newClusterInitCommand(env, settings), newClusterInspectCommand(env, settings),
		newClusterNonceCommand(env, settings), newClusterRegisterOperatorCommand(env, settings),
		newClusterRotateKeyCommand(env, settings), newClusterSecretCommand(env, settings), newClusterHostLogCommand(env, settings))
	return cmd
}

// addClusterFlags gives a command and all below it the flags of storage.
func addClusterFlags(cmd *cobra.Command) *clusterops.Settings {
	s := addStorageFlags(cmd)
	_ = cmd.MarkPersistentFlagRequired("storage-bucket")
	return s
}

// addStorageFlags does the same where the storage need not be named.
func addStorageFlags(cmd *cobra.Command) *clusterops.Settings {
	s := &clusterops.Settings{}
	f := cmd.PersistentFlags()
	f.StringVar(&s.StorageProvider, "storage-provider", "s3", "`KIND` of the storage: s3, gcs or file")
	f.StringVar(&s.Bucket, "storage-bucket", "", "`BUCKET` of the cluster: its name, or a folder for file")
	f.StringVar(&s.Prefix, "storage-prefix", "", "`PREFIX` of all keys in the bucket")
	f.StringVar(&s.SecretsProvider, "secrets-provider", clusterops.SecretsObjectStorage,
		"`KIND` of the secrets store: object-storage, aws-parameter-store, aws-secrets-manager or google-secret-manager")
	f.StringVar(&s.SecretsPrefix, "secrets-prefix", "", "`PREFIX` of the secrets; must be the servers' (default: secret/ in object storage, elsewhere made of the cluster's id)")
	f.StringVar(&s.SecretsProject, "secrets-project", "", "`PROJECT` of google-secret-manager")
	f.StringVar(&s.KeyProvider, "key-provider", "",
		"where the encryption key of object-storage comes from: `env`, file, aws-parameter-store, aws-secrets-manager or google-secret-manager")
	f.StringVar(&s.KeySource, "key-source", "", "`SOURCE` of the key: a variable (default NSTANCE_ENCRYPTION_KEY), a path, or the name of the secret")
	return s
}

// openCluster opens the storage, and returns the id of the cluster: the given
// one, or what the storage says.
func openCluster(ctx context.Context, settings *clusterops.Settings, given string) (*clusterops.Cluster, string, error) {
	where := *settings
	where.ClusterID = given
	cluster, err := clusterops.Open(ctx, where)
	if err != nil {
		return nil, "", err
	}
	if given != "" {
		return cluster, given, nil
	}
	id, err := cluster.ClusterID(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("%w (--cluster-id)", err)
	}
	return cluster, id, nil
}

func newClusterNonceCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var request clusterops.NonceRequest
	var outputPath string
	cmd := &cobra.Command{
		Use:   "nonce",
		Short: "Make a token with which one operator can register",
		Long: `Make a token with which one operator can register itself with the cluster, once
and in time. The token is a secret: it is written to a private file unless
"--output -" asks for it.`,
		Example: `  nstance-admin cluster nonce --storage-provider file --storage-bucket .dev/bucket \
    --key-provider file --key-source .dev/encryption.key --output nonce.jwt`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeNonce(cmd.Context(), env, settings, request, outputPath)
		},
	}
	f := cmd.Flags()
	f.StringVar(&request.ClusterID, "cluster-id", "", "`ID` of the cluster (default: what the configurations in the bucket say)")
	f.StringVar(&request.Tenant, "tenant", identity.DefaultTenant, "`TENANT` of the operator")
	f.DurationVar(&request.Expiry, "expiry", 3*time.Hour, "how long the token is good")
	f.StringVar(&outputPath, "output", "", "`FILE` to write, - for standard output (default: nonce.jwt in a private temporary folder)")
	return cmd
}

func writeNonce(ctx context.Context, env *Env, settings *clusterops.Settings, request clusterops.NonceRequest, path string) error {
	cluster, id, err := openCluster(ctx, settings, request.ClusterID)
	if err != nil {
		return err
	}
	request.ClusterID, request.Now = id, env.Now()
	token, err := cluster.Nonce(ctx, request)
	if err != nil {
		return err
	}
	if path == "-" {
		_, err := fmt.Fprintln(env.Out, token)
		return err
	}
	if path == "" {
		dir, err := tempIdentityDir(env)
		if err != nil {
			return err
		}
		path = filepath.Join(dir, "nonce.jwt")
	}
	if err := clusterops.WritePrivate(path, []byte(token)); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%s: nonce for an operator of tenant %s in cluster %s, good until %s\n",
		path, request.Tenant, id, request.Now.Add(request.Expiry).UTC().Format(time.RFC3339))
	return nil
}

// tempIdentityDir returns the private folder for what was given no place.
func tempIdentityDir(env *Env) (string, error) {
	dir := filepath.Join(env.TempDir, clusterops.TempIdentityDir)
	if err := clusterops.MakePrivateDir(dir); err != nil {
		return "", err
	}
	return dir, nil
}

// maxKeyFileSize is the size of the largest public key file, in bytes.
const maxKeyFileSize = 16 << 10

func certTTL(hours int) (time.Duration, error) {
	if most := int(pki.DefaultCATTL / time.Hour); hours < 1 || hours > most {
		return 0, usagef("--cert-ttl-hours %d must be from 1 to %d", hours, most)
	}
	return time.Duration(hours) * time.Hour, nil
}
