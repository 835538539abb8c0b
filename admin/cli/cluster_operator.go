package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/clusterops"
	"nstance.dev/admin/shardclient"
	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

// registerFlags describe an operator and where its files go.
type registerFlags struct {
	request       clusterops.OperatorRequest
	id, role      string
	publicKeyFile string
	outputDir     string
	ttlHours      int
	force, dryRun bool
}

func newClusterRegisterOperatorCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var register registerFlags
	cmd := &cobra.Command{
		Use:   "register-operator",
		Short: "Make an operator's identity",
		Long: `Make an operator's identity: with its own key pair, or for the public key of
a user who keeps the private one. With --role viewer it may read and watch all that
an operator of its tenant sees, and change nothing. The files ca.crt, identity.crt and
identity.key are what --identity-dir wants.`,
		Example: `  nstance-admin cluster register-operator --storage-provider file --storage-bucket .dev/bucket \
    --key-provider file --key-source .dev/encryption.key --output-dir ./operator`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return registerOperator(cmd.Context(), env, settings, register)
		},
	}
	f := cmd.Flags()
	f.StringVar(&register.request.ClusterID, "cluster-id", "", "`ID` of the cluster (default: what the configurations in the bucket say)")
	f.StringVar(&register.request.Tenant, "tenant", identity.DefaultTenant, "`TENANT` of the operator")
	f.StringVar(&register.role, "role", string(identity.RoleOperator), "`ROLE` of the certificate: operator, or viewer, who may look and change nothing")
	f.StringVar(&register.id, "operator-id", "", "`ID` of the operator, opr... (default: a new one)")
	f.StringVar(&register.publicKeyFile, "public-key-file", "", "`FILE` with the operator's Ed25519 public key, PEM (default: a new key pair)")
	f.StringVar(&register.outputDir, "output-dir", "", "`DIR` for the files (default: a private temporary folder)")
	f.IntVar(&register.ttlHours, "cert-ttl-hours", int(pki.DefaultOperatorTTL/time.Hour), "how many `HOURS` the certificate is good")
	f.BoolVar(&register.dryRun, "dry-run", false, "only check it, and say who would be registered")
	f.BoolVar(&register.force, "force", false, "replace an identity that is in the folder")
	return cmd
}

func registerOperator(ctx context.Context, env *Env, settings *clusterops.Settings, register registerFlags) error {
	ttl, err := certTTL(register.ttlHours)
	if err != nil {
		return err
	}
	role := identity.Role(register.role)
	if !role.Operates() {
		return &usageError{fmt.Errorf("--role: %q must be one of operator, viewer", register.role)}
	}
	request := register.request
	if role != identity.RoleOperator {
		request.Role = role // a record without one is an operator's, as those of before there were roles are
	}
	request.ID, request.TTL, request.Now = identity.ID(register.id), ttl, env.Now()
	if register.publicKeyFile != "" {
		if request.PublicKeyPEM, err = readInput(env, register.publicKeyFile, maxKeyFileSize); err != nil {
			return err
		}
	}
	cluster, id, err := openCluster(ctx, settings, request.ClusterID)
	if err != nil {
		return err
	}
	request.ClusterID = id
	if register.dryRun {
		if err := cluster.CheckOperator(ctx, request); err != nil {
			return err
		}
		fmt.Fprintf(env.Out, "%s %s of tenant %s in cluster %s would be registered\n", role, cmp.Or(request.ID, "with a new id"), request.Tenant, id)
		fmt.Fprintln(env.Err, "dry run: nothing was done")
		return nil
	}
	// Where the files can't go is found out before the operator is registered.
	dir, err := identityOutput(env, register)
	if err != nil {
		return err
	}
	operator, err := cluster.RegisterOperator(ctx, request)
	if err != nil {
		return err
	}
	if err := writeOperator(dir, operator); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%s: identity of %s %s of tenant %s in cluster %s, good until %s\n",
		dir, role, operator.ID, request.Tenant, id, operator.NotAfter.UTC().Format(time.RFC3339))
	return nil
}

// identityOutput makes the folder for the files, in which no identity may be yet.
func identityOutput(env *Env, register registerFlags) (string, error) {
	dir := register.outputDir
	if dir == "" {
		var err error
		if dir, err = tempIdentityDir(env); err != nil {
			return "", err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if register.force {
		return dir, nil
	}
	if err := clusterops.CheckAbsent(dir, shardclient.KeyFile, shardclient.CertFile); err != nil {
		return "", fmt.Errorf("%w; name another --output-dir, or replace it with --force", err)
	}
	return dir, nil
}

// writeOperator writes the key first: a certificate without its key is of no use.
func writeOperator(dir string, operator clusterops.Operator) error {
	var files []clusterops.File
	if operator.KeyPEM != nil {
		files = append(files, clusterops.File{Name: shardclient.KeyFile, Data: operator.KeyPEM})
	}
	return clusterops.WriteFiles(dir, append(files,
		clusterops.File{Name: shardclient.CAFile, Data: operator.CAPEM},
		clusterops.File{Name: shardclient.CertFile, Data: operator.CertPEM})...)
}
