package box

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// CallTimeout is how long one call may take, on a busy box.
const CallTimeout = 15 * time.Second

// Result is the outcome of a command.
type Result struct {
	Out, Err string
	Code     int
}

// Admin runs nstance-admin with the box's context, as a user would.
func (b *Box) Admin(args ...string) Result {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var out, errOut strings.Builder
	cmd := exec.CommandContext(ctx, b.program("nstance-admin"), args...)
	cmd.Env = append(os.Environ(), "NSTANCE_ADMIN_CONTEXT="+b.ContextPath())
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		b.t.Fatalf("nstance-admin %v: %v", args, err)
	}
	return Result{Out: out.String(), Err: errOut.String(), Code: cmd.ProcessState.ExitCode()}
}

// AdminOK is [Box.Admin] for a command that must succeed.
func (b *Box) AdminOK(args ...string) Result {
	b.t.Helper()
	r := b.Admin(args...)
	if r.Code != 0 {
		b.t.Fatalf("nstance-admin %v: exit code %d\n%s%s", args, r.Code, r.Out, r.Err)
	}
	return r
}

// AdminList runs a command that prints a JSON array, and returns its elements.
func (b *Box) AdminList(args ...string) []map[string]any {
	b.t.Helper()
	r := b.AdminOK(append(args, "-o", "json")...)
	var list []map[string]any
	if err := json.Unmarshal([]byte(r.Out), &list); err != nil {
		b.t.Fatalf("nstance-admin %v: no JSON array: %v\n%s", args, err, r.Out)
	}
	return list
}

// ContextPath is where the command line finds the cluster.
func (b *Box) ContextPath() string { return b.Path("admin.json") }

// Identity is the folder of the operator that `dev` enrols.
func (b *Box) Identity() string { return b.Path("identity") }

// ClientTLS returns TLS settings with the certificate of an operator or an agent,
// which is in a folder with ca.crt, identity.crt and identity.key.
func ClientTLS(dir string) (*tls.Config, error) {
	settings, err := AnonymousTLS(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "identity.crt"), filepath.Join(dir, "identity.key"))
	if err != nil {
		return nil, err
	}
	settings.Certificates = []tls.Certificate{pair}
	return settings, nil
}

// AnonymousTLS returns TLS settings that trust an authority and offer no
// certificate.
func AnonymousTLS(ca string) (*tls.Config, error) {
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate", ca)
	}
	return &tls.Config{RootCAs: pool, ServerName: ServerName, MinVersion: tls.VersionTLS12}, nil
}

// Dial returns a connection that comes back fast when a server does. The caller
// closes it.
func Dial(addr string, settings *tls.Config) (*grpc.ClientConn, error) {
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond}
	return grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(settings)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
}

// Operator returns a client of the operator port at an address, with the identity
// in a folder. It is safe for concurrent use.
func (b *Box) Operator(addr, identityDir string) (nstancev1.OperatorServiceClient, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := addr + " " + identityDir
	conn := b.conns[key]
	if conn == nil {
		settings, err := ClientTLS(identityDir)
		if err != nil {
			return nil, err
		}
		if conn, err = Dial(addr, settings); err != nil {
			return nil, err
		}
		b.conns[key] = conn
	}
	return nstancev1.NewOperatorServiceClient(conn), nil
}

// call makes one call to whoever leads, as the operator of the default tenant.
func call[T any](b *Box, do func(context.Context, nstancev1.OperatorServiceClient) (T, error)) (T, error) {
	var none T
	addrs, err := b.Leader()
	if err != nil {
		return none, err
	}
	client, err := b.Operator(addrs.Operator, b.Identity())
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), CallTimeout)
	defer cancel()
	return do(ctx, client)
}

// Groups asks the leader for the groups. It is safe for concurrent use.
func (b *Box) Groups() ([]*nstancev1.GroupStatus, error) {
	return call(b, func(ctx context.Context, c nstancev1.OperatorServiceClient) ([]*nstancev1.GroupStatus, error) {
		r, err := c.ListGroups(ctx, &emptypb.Empty{})
		return r.GetGroups(), err
	})
}

// Instances asks the leader for the instances. It is safe for concurrent use.
func (b *Box) Instances() ([]*nstancev1.InstanceStatus, error) {
	return call(b, func(ctx context.Context, c nstancev1.OperatorServiceClient) ([]*nstancev1.InstanceStatus, error) {
		r, err := c.ListInstances(ctx, &nstancev1.ListInstancesRequest{PageSize: 1000})
		return r.GetInstances(), err
	})
}

// Scale asks the leader for another size of a group. It is safe for concurrent use.
func (b *Box) Scale(group string, size int32) error {
	_, err := call(b, func(ctx context.Context, c nstancev1.OperatorServiceClient) (*nstancev1.GroupStatus, error) {
		return c.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: group, Config: &nstancev1.GroupConfig{Size: &size}})
	})
	return err
}

// SetHold asks the leader to put an instance on hold for that long. It is safe for concurrent use.
func (b *Box) SetHold(id, reason string, span time.Duration) error {
	_, err := call(b, func(ctx context.Context, c nstancev1.OperatorServiceClient) (*nstancev1.Hold, error) {
		return c.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: id, Reason: reason, Until: timestamppb.New(time.Now().Add(span))})
	})
	return err
}

// ClearHold asks the leader to end a hold. It is safe for concurrent use.
func (b *Box) ClearHold(id, reason string) error {
	_, err := call(b, func(ctx context.Context, c nstancev1.OperatorServiceClient) (*emptypb.Empty, error) {
		return c.ClearHold(ctx, &nstancev1.ClearHoldRequest{InstanceId: id, Reason: reason})
	})
	return err
}

// StartOperation asks the leader to begin an operation on an instance. It is safe for concurrent use.
func (b *Box) StartOperation(operation, id, name string) (*nstancev1.OperationStatus, error) {
	return call(b, func(ctx context.Context, c nstancev1.OperatorServiceClient) (*nstancev1.OperationStatus, error) {
		return c.StartOperation(ctx, &nstancev1.StartOperationRequest{Id: operation, InstanceId: id, Name: name})
	})
}
