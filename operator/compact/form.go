package compact

import (
	"fmt"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// form is how objects of a kind are kept: pack returns one as it is kept, and unpack one of those as it was. Both return
// everything else as it is, and are safe for concurrent use.
type form struct {
	pack   func(any) (any, error)
	unpack func(any) any
}

// own is what no two objects have in common. It is as much of an object as an informer itself looks at.
type own struct {
	namespace     unique.Handle[string]
	name, version string
	uid           types.UID
	created       metav1.Time
	deleted       *metav1.Time
}

// GetObjectMeta implements [metav1.ObjectMetaAccessor].
func (o *own) GetObjectMeta() metav1.Object {
	var m metav1.ObjectMeta
	o.into(&m)
	return &m
}

// ownOf takes what is an object's own out of its metadata.
func ownOf(m *metav1.ObjectMeta) own {
	o := own{unique.Make(m.Namespace), m.Name, m.ResourceVersion, m.UID, m.CreationTimestamp, m.DeletionTimestamp}
	m.Namespace, m.Name, m.ResourceVersion, m.UID, m.CreationTimestamp, m.DeletionTimestamp = "", "", "", "", metav1.Time{}, nil
	return o
}

func (o *own) into(m *metav1.ObjectMeta) {
	m.Namespace, m.Name, m.ResourceVersion, m.UID, m.CreationTimestamp, m.DeletionTimestamp = o.namespace.Value(), o.name, o.version, o.uid, o.created, o.deleted
}

// transform returns a transform that keeps in this form what another one leaves; nil: all.
func (f form) transform(first toolscache.TransformFunc) toolscache.TransformFunc {
	return func(o any) (any, error) {
		if first != nil {
			var err error
			if o, err = first(o); err != nil {
				return nil, err
			}
		}
		kept, err := f.pack(o)
		if err != nil {
			return nil, fmt.Errorf("keep %T: %w", o, err)
		}
		return kept, nil
	}
}

// whole returns an object of an informer as its reader or handler gets it.
func (f form) whole(o any) any {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		unknown.Obj = f.unpack(unknown.Obj)
		return unknown
	}
	return f.unpack(o)
}

func (f form) allWhole(all []any) []any {
	whole := make([]any, len(all))
	for i, o := range all {
		whole[i] = f.whole(o)
	}
	return whole
}

// indexers are index functions that get whole objects. The one of namespaces, which every cache has, does without.
func (f form) indexers(by toolscache.Indexers) toolscache.Indexers {
	whole := toolscache.Indexers{}
	for name, index := range by {
		if name == toolscache.NamespaceIndex {
			whole[name] = index
			continue
		}
		whole[name] = func(o any) ([]string, error) { return index(f.whole(o)) }
	}
	return whole
}
