package cluster

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"nstance.dev/e2e/sim/objects"
)

// Call is one call of a process to the API server.
type Call struct {
	Verb, Kind, Name string
	Writes           bool
}

func (c Call) String() string { return c.Verb + " " + c.Kind + " " + c.Name }

// Through decides what becomes of a call: it carries it out by do, or does not, and returns what the
// caller hears.
type Through func(c Call, do func() error) error

// Client returns a client of a process named by, which reads from its cache, or from the server where
// that is nil. Each call but reads from the cache goes through the function.
func (s *Server) Client(by string, cache *objects.View, through Through) client.Client {
	calls := s.writes(by, through)
	calls.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if cache != nil {
			return cache.Get(ctx, key, o, opts...)
		}
		return through(Call{"get", s.Kind(o), key.Name, false}, func() error { return c.Get(ctx, key, o, opts...) })
	}
	calls.List = func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
		if cache != nil {
			return cache.List(ctx, o, opts...)
		}
		return through(Call{"list", s.Kind(o), "", false}, func() error {
			if s.Kind(o) == "Pod" {
				return nil // there are none in this world
			}
			return c.List(ctx, o, opts...)
		})
	}
	return interceptor.NewClient(s.Direct, calls)
}

func (s *Server) writes(by string, through Through) interceptor.Funcs {
	write := func(verb string, o client.Object, do func(stored client.Object) error) error {
		return through(Call{verb, s.Kind(o), o.GetName(), true}, func() error { return s.Write(by, o, do) })
	}
	return interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return through(Call{"create", s.Kind(o), o.GetName(), true}, func() error { return s.Create(by, o) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return write("update", o, func(client.Object) error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch", o, func(stored client.Object) error {
				if err := objects.MeantByPatch(stored, o, patch); err != nil {
					return err
				}
				return c.Patch(ctx, o, patch, opts...)
			})
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			var options client.DeleteOptions
			options.ApplyOptions(opts)
			return through(Call{"delete", s.Kind(o), o.GetName(), true}, func() error { return s.Delete(by, o, options.Preconditions) })
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, sub string, o, body client.Object, _ ...client.SubResourceCreateOption) error {
			request, ok := body.(*authenticationv1.TokenRequest)
			if !ok {
				return fmt.Errorf("there is no %s of %s", sub, o.GetName())
			}
			return through(Call{"issue", "token for", request.Spec.BoundObjectRef.Name, true}, func() error { return s.issue(request) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, _ ...client.SubResourceUpdateOption) error {
			return write("update the "+sub+" of", o, func(client.Object) error { return c.Status().Update(ctx, o) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch the "+sub+" of", o, func(client.Object) error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, config runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return s.apply(ctx, by, through, c, sub, config, opts...)
		},
	}
}

// apply applies a part of a status.
func (s *Server) apply(
	ctx context.Context, by string, through Through, c client.Client, sub string, config runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	named, meant, err := s.Applied(config)
	if err != nil {
		return err
	}
	return through(Call{"apply the " + sub + " of", named.Kind, named.Name, true}, func() error {
		stored, err := meant()
		if err != nil {
			return err
		}
		return s.Write(by, stored, func(client.Object) error { return c.SubResource(sub).Apply(ctx, config, opts...) })
	})
}
