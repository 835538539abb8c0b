package fakecloud

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Google is the Secret Manager of all projects.
type Google struct {
	pb.UnimplementedSecretManagerServiceServer
	addr string

	mu      sync.Mutex
	secrets map[string]*googleSecret
	etags   int
	calls   []string
	fault   func(method string) (before, after error)
}

type googleSecret struct {
	meta     *pb.Secret
	versions [][]byte
}

// NewGoogle starts an empty manager, which ends with the test.
func NewGoogle(t testing.TB) *Google {
	t.Helper()
	g := &Google{secrets: map[string]*googleSecret{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = listener.Addr().String()
	server := grpc.NewServer(grpc.UnaryInterceptor(g.intercept))
	pb.RegisterSecretManagerServiceServer(server, g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return g
}

// Options lead a client to this manager.
func (g *Google) Options() []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(g.addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

// SetFault has fault say what goes wrong with each call from now on: before it
// takes effect, or only with its answer.
func (g *Google) SetFault(fault func(method string) (before, after error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = fault
}

// Calls returns the methods that were called so far, in order.
func (g *Google) Calls() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.calls)
}

func (g *Google) intercept(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, method)
	var before, after error
	if g.fault != nil {
		before, after = g.fault(method)
	}
	if before != nil {
		return nil, before
	}
	out, err := handle(ctx, in)
	if after != nil {
		return nil, after
	}
	return out, err
}

// CreateSecret implements the service.
func (g *Google) CreateSecret(_ context.Context, in *pb.CreateSecretRequest) (*pb.Secret, error) {
	name := in.Parent + "/secrets/" + in.SecretId
	if strings.ContainsAny(in.SecretId, "./ ") || in.Secret.GetReplication() == nil {
		return nil, status.Errorf(codes.InvalidArgument, "secret %q is malformed", in.SecretId)
	}
	if _, exists := g.secrets[name]; exists {
		return nil, status.Errorf(codes.AlreadyExists, "Secret [%s] already exists.", name)
	}
	g.etags++
	meta := proto.CloneOf(in.Secret)
	meta.Name, meta.Etag, meta.CreateTime = name, fmt.Sprint(g.etags), timestamppb.New(time.Now())
	g.secrets[name] = &googleSecret{meta: meta}
	return meta, nil
}

func (g *Google) find(name string) (*googleSecret, error) {
	s, ok := g.secrets[name]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "Secret [%s] not found or has no versions.", name)
	}
	return s, nil
}

// GetSecret implements the service.
func (g *Google) GetSecret(_ context.Context, in *pb.GetSecretRequest) (*pb.Secret, error) {
	s, err := g.find(in.Name)
	if err != nil {
		return nil, err
	}
	return s.meta, nil
}

// DeleteSecret implements the service.
func (g *Google) DeleteSecret(_ context.Context, in *pb.DeleteSecretRequest) (*emptypb.Empty, error) {
	s, err := g.find(in.Name)
	if err != nil {
		return nil, err
	}
	if in.Etag != "" && in.Etag != s.meta.Etag {
		return nil, status.Errorf(codes.FailedPrecondition, "etag of %s does not match", in.Name)
	}
	delete(g.secrets, in.Name)
	return &emptypb.Empty{}, nil
}

// AddSecretVersion implements the service.
func (g *Google) AddSecretVersion(_ context.Context, in *pb.AddSecretVersionRequest) (*pb.SecretVersion, error) {
	s, err := g.find(in.Parent)
	if err != nil {
		return nil, err
	}
	if data := in.Payload.GetData(); len(data) == 0 || len(data) > 64<<10 {
		return nil, status.Errorf(codes.InvalidArgument, "payload %q must have from 1 to 65536 bytes", data)
	}
	s.versions = append(s.versions, in.Payload.Data)
	return &pb.SecretVersion{Name: fmt.Sprintf("%s/versions/%d", in.Parent, len(s.versions))}, nil
}

// AccessSecretVersion implements the service.
func (g *Google) AccessSecretVersion(_ context.Context, in *pb.AccessSecretVersionRequest) (*pb.AccessSecretVersionResponse, error) {
	name, latest := strings.CutSuffix(in.Name, "/versions/latest")
	s, err := g.find(name)
	if err != nil {
		return nil, err
	}
	if !latest || len(s.versions) == 0 {
		return nil, status.Errorf(codes.NotFound, "Secret Version [%s] not found.", in.Name)
	}
	return &pb.AccessSecretVersionResponse{Name: in.Name, Payload: &pb.SecretPayload{Data: s.versions[len(s.versions)-1]}}, nil
}

// ListSecrets implements the service. Like the real one it finds what the filter
// names anywhere in a name.
func (g *Google) ListSecrets(_ context.Context, in *pb.ListSecretsRequest) (*pb.ListSecretsResponse, error) {
	wanted := strings.TrimPrefix(in.Filter, "name:")
	names := slices.DeleteFunc(slices.Collect(maps.Keys(g.secrets)), func(name string) bool {
		id, ours := strings.CutPrefix(name, in.Parent+"/secrets/")
		return !ours || !strings.Contains(id, wanted)
	})
	names, next := page(names, in.PageToken)
	out := &pb.ListSecretsResponse{NextPageToken: next}
	for _, name := range names {
		out.Secrets = append(out.Secrets, g.secrets[name].meta)
	}
	return out, nil
}

// Secrets returns the latest values by the full names of the secrets.
func (g *Google) Secrets() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[string]string{}
	for name, s := range g.secrets {
		if len(s.versions) > 0 {
			out[name] = string(s.versions[len(s.versions)-1])
		}
	}
	return out
}

// PutSecret stores a version of a secret as somebody else would; nil makes the
// secret alone.
func (g *Google) PutSecret(project, id string, value []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := "projects/" + project + "/secrets/" + id
	s, ok := g.secrets[name]
	if !ok {
		s = &googleSecret{meta: &pb.Secret{Name: name, CreateTime: timestamppb.Now()}}
		g.secrets[name] = s
	}
	if value != nil {
		s.versions = append(s.versions, value)
	}
}
