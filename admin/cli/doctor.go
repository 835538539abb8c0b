package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/clusterops"
	"nstance.dev/admin/doctor"
	"nstance.dev/admin/output"
	"nstance.dev/admin/shardclient"
	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newDoctorCommand(env *Env) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps commands and clusters from working, and say what to do",
		Long: `Check the identity, the addresses and the leader of every shard, versions, clocks, what
this identity may do, whether the stored configuration is in force, and whether a group
needs an administrator. With --storage-bucket the storage of the cluster is checked, too:
that needs what the servers have, as the commands of "cluster" do.

Everything that is wrong is printed with its remedy. Nothing is changed. The exit code is
1 if anything has failed; warnings do not count.`,
		Example: `  nstance-admin doctor
  nstance-admin doctor --shard us-1a -o json
  nstance-admin doctor --storage-provider file --storage-bucket .dev/bucket --key-provider file --key-source .dev/encryption.key`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(env, cmd)
	settings := addStorageFlags(cmd)
	addOutputFlag(cmd, &format, output.Table, output.JSON, output.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		findings, err := diagnose(cmd.Context(), env, flags, settings)
		if err != nil {
			return err
		}
		if err := printFindings(env, format, findings); err != nil {
			return err
		}
		if doctor.Failed(findings) {
			return errors.New("something is wrong; the remedies stand above")
		}
		return nil
	}
	return cmd
}

// diagnose makes all checks; the error is that nothing says what to check.
func diagnose(ctx context.Context, env *Env, flags *shardFlags, settings *clusterops.Settings) ([]doctor.Finding, error) {
	var findings []doctor.Finding
	if settings.Bucket != "" {
		findings = append(findings, diagnoseStorage(ctx, env, settings)...)
	}
	wide := *flags
	wide.AllShards = flags.Shard == ""
	selection, err := shardclient.Resolve(wide.Flags, env.Getenv)
	if err != nil {
		if settings.Bucket != "" && errors.Is(err, shardclient.ErrSelection) && flags.Context == "" {
			return findings, nil // the storage alone is asked about
		}
		return nil, err
	}
	dir := selection.IdentityDir
	if dir == "" {
		dir = filepath.Join(env.TempDir, clusterops.TempIdentityDir)
	}
	ofIdentity := doctor.Identity(dir, selection.ClusterID, selection.Tenant, env.Now())
	findings = append(findings, ofIdentity...)
	id, err := shardclient.LoadIdentity(dir, "", "", time.Time{})
	if err != nil {
		if !doctor.Failed(ofIdentity) {
			findings = append(findings, doctor.Finding{
				Check: "identity", Subject: dir, Level: doctor.Fail, Detail: err.Error(), Remedy: "take an identity of an operator: 'nstance-admin cluster register-operator' makes one",
			})
		}
		return findings, nil
	}
	for _, target := range selection.Targets {
		findings = append(findings, diagnoseShard(ctx, env, flags, target, id)...)
	}
	return findings, nil
}

func diagnoseShard(ctx context.Context, env *Env, flags *shardFlags, target shardclient.Target, id *shardclient.Identity) []doctor.Finding {
	probes := shardclient.ProbeAll(ctx, target, id, shardclient.Options{Now: env.Now, CallTimeout: min(flags.timeout, 10*time.Second)})
	findings := doctor.Servers(target.Shard, env.Version, probes)
	for _, p := range probes {
		if p.Role != shardclient.Leader {
			continue
		}
		conn := shardclient.Dial(shardclient.Target{Shard: target.Shard, Addresses: []string{p.Address}}, id, shardclient.Options{Now: env.Now, Patience: flags.timeout})
		view := lookAt(ctx, flags.timeout, nstancev1.NewOperatorServiceClient(conn))
		_ = conn.Close()
		return append(findings, doctor.Shard(target.Shard, view, env.Now())...)
	}
	return findings
}

// lookAt asks a leader for what is judged of it.
func lookAt(ctx context.Context, timeout time.Duration, api nstancev1.OperatorServiceClient) doctor.View {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var v doctor.View
	v.Config, v.ConfigErr = api.GetConfigStatus(ctx, &emptypb.Empty{})
	groups, err := api.ListGroups(ctx, &emptypb.Empty{})
	v.Groups, v.GroupsErr = groups.GetGroups(), err
	v.Instances, _, v.InstancesErr = wait.ListInstances(ctx, api)
	return v
}

func diagnoseStorage(ctx context.Context, env *Env, settings *clusterops.Settings) []doctor.Finding {
	var state *clusterops.State
	cluster, err := clusterops.Open(ctx, *settings)
	if err == nil {
		state, err = cluster.Inspect(ctx)
	}
	return doctor.Storage(settings.Bucket, state, err, env.Now())
}

// printFindings prints a line for each, and below those that are not well the remedies.
func printFindings(env *Env, format output.Format, findings []doctor.Finding) error {
	if format.Shape() == output.JSON {
		return output.Value(env.Out, format, findings)
	}
	t := tabwriter.NewWriter(env.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "RESULT\tCHECK\tSUBJECT\tDETAIL")
	for _, f := range findings {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Level, f.Check, output.Cell(f.Subject), output.Cell(f.Detail))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range findings {
		if f.Remedy != "" {
			fmt.Fprintf(env.Out, "\n%s: %s: %s\n  remedy: %s\n", f.Level, output.Cell(f.Subject), output.Cell(f.Detail), f.Remedy)
		}
	}
	return nil
}
