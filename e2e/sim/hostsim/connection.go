package hostsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
			err = p.call(fmt.Sprintf("get %s %s", a.kind(o), key.Name), false, func() error { return c.Get(ctx, key, o, opts...) })
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
			err = p.call("list "+a.kind(o), false, func() error { return c.List(ctx, o, opts...) })
		}
		var options client.ListOptions
		if options.ApplyOptions(opts); err == nil && options.FieldSelector == nil {
			p.read(ctx, o)
		}
		return err
	}
	return interceptor.NewClient(a.store, calls)
}

// writes are the calls by which the process changes objects.
func (p *process) writes() interceptor.Funcs {
	a := p.w.api
	write := func(verb string, o client.Object, do func(stored client.Object) error) error {
		return p.call(fmt.Sprintf("%s %s %s", verb, a.kind(o), o.GetName()), true, func() error { return a.write(p.name, a.kind(o), o.GetName(), do) })
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write("create", o, func(stored client.Object) error {
				if err := a.admit(nil, o, false); stored == nil && err != nil {
					return err
				}
				a.identify(o)
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
				if err := sameUID(stored, o, patch); err != nil {
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
					return apierrors.NewNotFound(schema.GroupResource{Resource: a.kind(o)}, o.GetName())
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

// sameUID refuses a patch that names another UID than the object has.
func sameUID(stored, o client.Object, patch client.Patch) error {
	data, err := patch.Data(o)
	var named struct {
		Metadata struct{ UID string }
	}
	if err = errors.Join(err, json.Unmarshal(data, &named)); err != nil {
		return err
	}
	if uid := named.Metadata.UID; stored != nil && uid != "" && uid != string(stored.GetUID()) {
		return apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, o.GetName(), errors.New("another UID"))
	}
	return nil
}

// apply applies a part of a status.
func (p *process) apply(ctx context.Context, c client.Client, sub string, config runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	part, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return err
	}
	object := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, object); err != nil {
		return err
	}
	machine := &hostsv1.HostMachine{}
	if object.Kind == hostsv1.KindHostMachine {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, machine); err != nil {
			return err
		}
	}
	return p.call(fmt.Sprintf("apply the status of %s %s", object.Kind, object.Name), true, func() error {
		return p.w.api.write(p.name, object.Kind, object.Name, func(stored client.Object) error {
			of := schema.GroupResource{Group: hostsv1.GroupVersion.Group, Resource: object.Kind}
			switch {
			case stored == nil:
				return apierrors.NewNotFound(of, object.Name)
			case object.UID != "" && object.UID != stored.GetUID():
				return apierrors.NewConflict(of, object.Name, errors.New("another UID"))
			case object.ResourceVersion != "" && object.ResourceVersion != stored.GetResourceVersion():
				return apierrors.NewConflict(of, object.Name, errors.New("it has changed"))
			}
			if is, ok := stored.(*hostsv1.HostMachine); ok {
				p.w.oracle.selects(p.basisOf(ctx), is, machine)
			}
			return c.SubResource(sub).Apply(ctx, config, opts...)
		})
	})
}
