package hostsim

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// errDead is what a process gets that has ended: nothing.
var errDead = errors.New("the process has ended")

// verdict is what becomes of a call.
type verdict struct {
	dead          bool
	before, after error // instead of its effect; instead of the answer
	dies          bool  // the process ends when the call has had its effect
}

// call makes a call when the world lets it go on.
func (p *process) call(what string, writes bool, do func() error) error {
	v := p.w.park(p, what, writes)
	switch {
	case v.dead || p.isDead():
		return errDead
	case v.before != nil:
		p.w.notef("%s: %s: refused", p.name, what)
		return v.before
	}
	err := do()
	switch {
	case err != nil:
		p.w.notef("%s: %s: %v", p.name, what, err)
	case v.dies:
		p.w.notef("%s: %s, and the process ends", p.name, what)
		p.end()
		return errDead
	case v.after != nil:
		p.w.notef("%s: %s, and the answer is lost", p.name, what)
		return v.after
	default:
		p.w.notef("%s: %s", p.name, what)
	}
	return err
}

// connection returns a client of the process, which reads from its cache or from the API server.
func (p *process) connection(cached bool) client.Client {
	a, calls := p.w.api, p.writes()
	calls.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) (err error) {
		if cached {
			err = p.cache.Get(ctx, key, o, opts...)
		} else {
			err = p.call(fmt.Sprintf("get %s %s", a.Kind(o), key.Name), false, func() error { return c.Get(ctx, key, o, opts...) })
		}
		if err == nil {
			p.read(ctx, o)
		}
		return err
	}
	calls.List = func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) (err error) {
		if cached {
			err = p.cache.List(ctx, o, opts...)
		} else {
			err = p.call("list "+a.Kind(o), false, func() error { return c.List(ctx, o, opts...) })
		}
		var options client.ListOptions
		if options.ApplyOptions(opts); err == nil && options.FieldSelector == nil {
			p.read(ctx, o)
		}
		return err
	}
	return interceptor.NewClient(a.Direct, calls)
}

// writes are the calls by which the process changes objects.
func (p *process) writes() interceptor.Funcs {
	a := p.w.api
	write := func(verb string, o client.Object, do func(stored client.Object) error) error {
		return p.call(fmt.Sprintf("%s %s %s", verb, a.Kind(o), o.GetName()), true, func() error { return a.Write(p.name, o, do) })
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write("create", o, func(stored client.Object) error {
				if err := a.admit(nil, o, false); stored == nil && err != nil {
					return err
				}
				a.Identify(o)
				return c.Create(ctx, o, opts...)
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return write("update", o, func(stored client.Object) error {
				if err := a.admit(stored, o, false); stored != nil && err != nil {
					return err
				}
				return c.Update(ctx, o, opts...)
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch", o, func(stored client.Object) error {
				if err := objects.MeantByPatch(stored, o, patch); err != nil {
					return err
				}
				return c.Patch(ctx, o, patch, opts...)
			})
		},
		Delete: func(ctx context.Context, _ client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			var options client.DeleteOptions
			options.ApplyOptions(opts)
			return write("delete", o, func(stored client.Object) error {
				p.w.oracle.deletes(p.basisOf(ctx), o)
				return a.delete(ctx, stored, o, options.Preconditions)
			})
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch the status of", o, func(stored client.Object) error {
				if stored == nil {
					return apierrors.NewNotFound(schema.GroupResource{Resource: a.Kind(o)}, o.GetName())
				}
				if err := a.admit(stored, o, true); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, o, patch, opts...)
			})
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, config runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return p.apply(ctx, c, sub, config, opts...)
		},
	}
}

// apply applies a part of a status.
func (p *process) apply(ctx context.Context, c client.Client, sub string, config runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	named, meant, err := p.w.api.Applied(config)
	if err != nil {
		return err
	}
	machine := &hostsv1.HostMachine{}
	if named.Kind == hostsv1.KindHostMachine {
		part, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(part, machine)
		}
		if err != nil {
			return err
		}
	}
	return p.call(fmt.Sprintf("apply the status of %s %s", named.Kind, named.Name), true, func() error {
		stored, err := meant()
		if err != nil {
			return err
		}
		return p.w.api.Write(p.name, stored, func(client.Object) error {
			if is, ok := stored.(*hostsv1.HostMachine); ok {
				p.w.oracle.selects(p.basisOf(ctx), is, machine)
			}
			return c.SubResource(sub).Apply(ctx, config, opts...)
		})
	})
}
