package secrets

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kube keeps Secrets in an API server.
type kube struct {
	namespace string
	reader    client.Reader
	writer    client.Writer
}

// NewStore returns the Secrets of a namespace. The reader must not answer from a cache: a
// manager's GetAPIReader is one, its GetClient is not.
//
// It needs the rights to get, create and update secrets in the namespace.
func NewStore(namespace string, reader client.Reader, writer client.Writer) Store {
	return kube{namespace, reader, writer}
}

// Get implements [Store].
func (k kube) Get(ctx context.Context, name string) (Secret, error) {
	var o corev1.Secret
	if err := k.reader.Get(ctx, types.NamespacedName{Namespace: k.namespace, Name: name}, &o); err != nil {
		return Secret{}, meaning("get", name, err)
	}
	return From(&o), nil
}

// Create implements [Store].
func (k kube) Create(ctx context.Context, s Secret) (Secret, error) {
	o := k.object(s)
	o.ResourceVersion = ""
	if err := k.writer.Create(ctx, o); err != nil {
		return Secret{}, meaning("create", s.Name, err)
	}
	return From(o), nil
}

// Update implements [Store].
func (k kube) Update(ctx context.Context, s Secret) (Secret, error) {
	if s.Version == "" { // the API server would replace whatever is there
		return Secret{}, fmt.Errorf("update secret %s: %w: it was not read before", s.Name, ErrConflict)
	}
	o := k.object(s)
	if err := k.writer.Update(ctx, o); err != nil {
		return Secret{}, meaning("update", s.Name, err)
	}
	return From(o), nil
}

func (k kube) object(s Secret) *corev1.Secret {
	s = s.Clone()
	o := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.namespace, Name: s.Name, ResourceVersion: s.Version,
			Labels: s.Labels, Annotations: s.Annotations,
		},
		Type: corev1.SecretType(s.Type),
		Data: s.Data,
	}
	for _, w := range s.Owners {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{
			APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name, UID: types.UID(w.UID),
		})
	}
	return o
}

// From returns what an API server's object holds. It shares nothing with it.
func From(o *corev1.Secret) Secret {
	s := Secret{
		Name: o.Name, Type: string(o.Type), Labels: o.Labels, Annotations: o.Annotations, Data: o.Data, Version: o.ResourceVersion,
	}
	for _, w := range o.OwnerReferences {
		s.Owners = append(s.Owners, Owner{APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name, UID: string(w.UID)})
	}
	return s.Clone()
}

// meaning adds to an API server's error what a caller acts on. The API server's words name
// the object and hold nothing of its data.
func meaning(verb, name string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s secret %s: %w", verb, name, ErrNotFound)
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s secret %s: %w", verb, name, ErrExists)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s secret %s: %w", verb, name, ErrConflict)
	}
	return fmt.Errorf("%s secret %s: %w", verb, name, err)
}
