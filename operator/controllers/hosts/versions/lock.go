package versions

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/images"
	"nstance.dev/operator/hosts/versions"
)

// ErrNotLockable is matched by errors about a version that cannot be assigned now.
var ErrNotLockable = errors.New("version cannot be assigned")

// Locked is the content of a locked version. It never changes.
type Locked struct {
	Reference hostsv1.VersionReference
	Template  hostsv1.Template
	Resolved  *hostsv1.ResolvedTemplate
}

// Lock locks a version for a machine, and returns what it holds. Only after it has returned may
// the content be published: the API server has acknowledged the lock by then, of exactly what
// was read. A tag of its image is resolved first, and its digest written with the lock. A version
// that is locked already is returned as it is. Errors match ErrNotLockable if the version cannot be
// assigned, and images.ErrUnresolved if its tag could not be resolved: it is not locked then. Any other
// error says nothing of whether it was locked. The call may be repeated.
func (r *Reconciler) Lock(ctx context.Context, configuration string, number int32, machine string) (Locked, error) {
	w, digests := r.workOn(configuration), digests{}
	for range mostSteps {
		content, err := r.tryLock(ctx, w, lockRequest{configuration, number, machine}, digests)
		var open *tagError
		switch {
		case errors.Is(err, errAgain):
			continue
		case errors.As(err, &open): // asked while other work on the configuration goes on
			if err = r.resolve(ctx, open, digests); err == nil {
				continue
			}
		}
		if errors.Is(err, ErrNotLockable) {
			r.opts.Refused("not-lockable")
		}
		if err != nil {
			return Locked{}, fmt.Errorf("lock version %s: %w", versions.Name(configuration, number), err)
		}
		return content, nil
	}
	return Locked{}, fmt.Errorf("lock version %s: it changed %d times meanwhile", versions.Name(configuration, number), mostSteps)
}

// lockRequest is a version to be locked, and the machine that it is for; empty: for none.
type lockRequest struct {
	configuration string
	number        int32
	machine       string
}

// digests are those that tags were resolved to, by the hash of the template.
type digests map[hostsv1.SHA256]hostsv1.SHA256

// tagError: the tag of a template has to be resolved before it is locked.
type tagError struct {
	hash     hostsv1.SHA256
	template *hostsv1.Template
}

func (*tagError) Error() string { return "the tag of its image has to be resolved" }

// resolve asks for the digest that a tag has.
func (r *Reconciler) resolve(ctx context.Context, open *tagError, known digests) error {
	digest, err := r.opts.Digest(ctx, open.template)
	if err != nil {
		r.opts.Refused("unresolved")
		return err
	}
	known[open.hash] = digest
	return nil
}

// lockUnassigned locks a version that a machine refers to and that is not the newest.
func (r *Reconciler) lockUnassigned(ctx context.Context, seen *observation, number int32) error {
	q, known := lockRequest{configuration: seen.configuration.Name, number: number}, digests{}
	_, err := r.lock(ctx, seen, q, known)
	var open *tagError
	if errors.As(err, &open) {
		if err = r.resolve(ctx, open, known); err == nil {
			_, err = r.lock(ctx, seen, q, known)
		}
	}
	return err
}

// errAgain: what was read has changed, or what had to come first is done.
var errAgain = errors.New("look again")

// tryLock locks a version, if nothing gets in its way.
func (r *Reconciler) tryLock(ctx context.Context, w *work, q lockRequest, known digests) (Locked, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, err := r.observeLive(ctx, q.configuration)
	switch {
	case errors.Is(err, errChanging):
		return Locked{}, errAgain
	case apierrors.IsNotFound(err):
		return Locked{}, fmt.Errorf("%w: MachineConfiguration %s does not exist", ErrNotLockable, q.configuration)
	case err != nil:
		return Locked{}, err
	}
	if pending := seen.configuration.Status.PendingVersion; pending != nil && pending.Number == q.number {
		if _, err := r.catchUp(ctx, q.configuration); err != nil { // its creation is recorded first
			return Locked{}, err
		}
		return Locked{}, errAgain
	}
	content, err := r.lock(ctx, seen, q, known)
	if late(err) {
		r.opts.Refused("changed")
		return Locked{}, errAgain
	}
	return content, err
}

// lock locks the very version that was seen.
func (r *Reconciler) lock(ctx context.Context, seen *observation, q lockRequest, known digests) (Locked, error) {
	if why := versions.MayLock(seen.state(), q.number); why != "" {
		return Locked{}, fmt.Errorf("%w: %s", ErrNotLockable, why)
	}
	v := seen.version(q.number)
	hash := versions.Hash(&v.Spec.Template)
	if !v.Status.Deployed {
		next := v.DeepCopy()
		if r.opts.Digest != nil && v.Status.Resolved == nil && images.Tagged(&v.Spec.Template) {
			if known[hash] == "" {
				return Locked{}, &tagError{hash, v.Spec.Template.DeepCopy()}
			}
			next.Status.Resolved = &hostsv1.ResolvedTemplate{ImageDigest: known[hash]}
		}
		now := metav1.NewTime(r.opts.Now())
		next.Status.Deployed, next.Status.DeployedAt, next.Status.FirstMachine = true, &now, q.machine
		next.Status.Hash = hash
		next.Status.Conditions = versionConditions(next, r.opts.Now())
		if err := r.patchStatus(ctx, next, v); err != nil {
			return Locked{}, err
		}
		r.opts.Wrote(string(versions.Lock))
		log.FromContext(ctx).Info("locked version", "version", v.Name, "machine", q.machine, "hash", string(hash))
		r.opts.Events.Eventf(seen.configuration, v, corev1.EventTypeNormal, hostsv1.EventVersionLocked, "Version", "locked version %s", v.Name)
		v = next
	}
	return Locked{
		Reference: hostsv1.VersionReference{
			Name: v.Spec.ConfigurationName, Version: q.number, UID: string(seen.configuration.UID), Hash: hash,
		},
		Template: *v.Spec.Template.DeepCopy(), Resolved: v.Status.Resolved.DeepCopy(),
	}, nil
}
