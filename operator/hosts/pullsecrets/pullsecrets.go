// Package pullsecrets knows whether the Secrets exist that templates name to pull images with, and reads them.
//
// They are asked for by name, one by one, because the operator may neither list nor watch Secrets; an
// answer counts for [Fresh]. [Read] reads what one holds, which nobody may keep. It leaves to others what
// follows from a Secret that does not exist.
package pullsecrets

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fresh is how long an answer counts.
const Fresh = 30 * time.Second

// maxSize is how large a pull secret may be, bytes.
const maxSize = 64 << 10

// Read returns the content of a pull secret; secrets reads from the API server. No error repeats any of it.
func Read(ctx context.Context, secrets client.Reader, namespace, name string) ([]byte, error) {
	s := &corev1.Secret{}
	if err := secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		return nil, fmt.Errorf("pull secret %s of namespace %s: %w", name, namespace, err)
	}
	content := s.Data[corev1.DockerConfigJsonKey]
	switch {
	case s.Type != corev1.SecretTypeDockerConfigJson || len(content) == 0:
		return nil, fmt.Errorf("pull secret %s of namespace %s: it is not of type %s", name, namespace, corev1.SecretTypeDockerConfigJson)
	case len(content) > maxSize:
		return nil, fmt.Errorf("pull secret %s of namespace %s: it has %d bytes, more than %d", name, namespace, len(content), maxSize)
	}
	return content, nil
}

// Checker asks for the Secrets of one namespace. New makes one; it is safe for concurrent use.
type Checker struct {
	secrets   client.Reader
	namespace string
	now       func() time.Time

	mu    sync.Mutex
	known map[string]answer
}

type answer struct {
	missing bool
	at      time.Time
}

// New returns a checker; secrets reads from the API server.
func New(secrets client.Reader, namespace string, now func() time.Time) *Checker {
	return &Checker{secrets: secrets, namespace: namespace, now: now, known: map[string]answer{}}
}

// Missing reports whether a Secret does not exist. Where the API server does not say, it may.
func (c *Checker) Missing(ctx context.Context, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if a, known := c.known[name]; known && now.Sub(a.at) < Fresh {
		return a.missing
	}
	err := c.secrets.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, &corev1.Secret{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false
	}
	c.known[name] = answer{apierrors.IsNotFound(err), now}
	return err != nil
}
