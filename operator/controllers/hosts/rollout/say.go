package rollout

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/rollout"
	"nstance.dev/operator/status"
)

// said is what was written of a configuration, until the cache has it.
type said struct {
	rollout    *hostsv1.Rollout
	conditions []metav1.Condition
	until      time.Time
}

// ours are the conditions of a configuration that are written here.
var ours = []metav1.Condition{{Type: hostsv1.ConditionRollingOut}, {Type: hostsv1.ConditionRolloutHalted}}

// overlaid sets what this process has written into a configuration of which the cache does not have it yet.
func (w *work) overlaid(c *hostsv1.MachineConfiguration, now time.Time) {
	if _, asked := c.Annotations[hostsv1.AnnotationResume]; !asked {
		w.resumed = time.Time{}
	} else if now.Before(w.resumed.Add(lateFor)) {
		delete(c.Annotations, hostsv1.AnnotationResume)
	}
	switch {
	case w.said == nil:
	case !now.Before(w.said.until), sameSaid(c, w.said.rollout, w.said.conditions):
		w.said = nil
	default:
		c.Status.Rollout = w.said.rollout
		for _, of := range ours {
			meta.RemoveStatusCondition(&c.Status.Conditions, of.Type)
		}
		c.Status.Conditions = append(c.Status.Conditions, w.said.conditions...)
	}
}

// sameSaid is whether a configuration says already what there is to say.
func sameSaid(c *hostsv1.MachineConfiguration, of *hostsv1.Rollout, conditions []metav1.Condition) bool {
	return equality.Semantic.DeepEqual(c.Status.Rollout, of) && equality.Semantic.DeepEqual(status.Select(c.Status.Conditions, ours), conditions)
}

// conditions are those that a decision gives a configuration. Where machines are repaved by hand, and always
// were, there is nothing to say.
func conditions(d rollout.Decision) []metav1.Condition {
	var all []metav1.Condition
	for _, one := range []struct {
		of string
		is rollout.Verdict
	}{{hostsv1.ConditionRollingOut, d.Rolling}, {hostsv1.ConditionRolloutHalted, d.Halted}} {
		switch {
		case one.is.Reason == "", d.Rollout == nil && d.Rolling.Reason == hostsv1.ReasonOnDelete:
		case one.is.True:
			all = append(all, status.True(one.of, one.is.Reason, one.is.Message))
		default:
			all = append(all, status.False(one.of, one.is.Reason, one.is.Message))
		}
	}
	return all
}

// say writes how the rollout stands, and tells what is new of it. Numbers alone wait for their time, which is
// returned.
func (r *Reconciler) say(ctx context.Context, s *seen, w *work, d rollout.Decision) (time.Duration, error) {
	c, now := s.configuration, r.opts.Now()
	if c.UID == "" { // it is gone
		return 0, nil
	}
	next := status.Next(c.Status.Conditions, conditions(d), c.Generation, now)
	if !sameSaid(c, d.Rollout, next) {
		if wait := w.told.Add(tellEvery).Sub(now); wait > 0 && d.News == "" && !turned(c.Status.Conditions, next) {
			return wait, nil
		}
		object := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: c.Name, UID: c.UID}}
		object.Status.Rollout, object.Status.Conditions = d.Rollout, next
		if err := status.Apply(ctx, r.opts.Client, object, manager); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("write the status of MachineConfiguration %s: %w", c.Name, err)
		}
		w.told, w.said = now, &said{d.Rollout, next, now.Add(lateFor)}
		r.tellNews(ctx, c, d)
	}
	if d.Resumed {
		return 0, r.resumed(ctx, w, c)
	}
	return 0, nil
}

// turned is whether a condition is another one than before, and not only about other numbers.
func turned(was, is []metav1.Condition) bool {
	for _, c := range is {
		if before := meta.FindStatusCondition(was, c.Type); before == nil || before.Status != c.Status || before.Reason != c.Reason {
			return true
		}
	}
	return len(status.Select(was, ours)) != len(is)
}

// tellNews tells what has just become so with the rollout as a whole.
func (r *Reconciler) tellNews(ctx context.Context, c *hostsv1.MachineConfiguration, d rollout.Decision) {
	log := r.opts.Log.With("configuration", c.Name)
	if d.Rollout != nil {
		log = log.With("version", d.Rollout.Target, "updated", d.Rollout.Updated, "failures", d.Rollout.Failures)
	}
	kind, message := corev1.EventTypeNormal, d.Rolling.Message
	var reason string
	switch d.News {
	case rollout.Started:
		reason = hostsv1.EventRolloutStarted
	case rollout.Complete:
		reason = hostsv1.EventRolloutComplete
	case rollout.Resumed:
		reason = hostsv1.EventRolloutResumed
	case rollout.Halted:
		kind, reason, message = corev1.EventTypeWarning, hostsv1.EventRolloutHalted, d.Halted.Message
	default:
		if turned(c.Status.Conditions, status.Next(c.Status.Conditions, conditions(d), c.Generation, r.opts.Now())) {
			log.InfoContext(ctx, "rollout", "reason", d.Rolling.Reason+": "+d.Rolling.Message)
		}
		return
	}
	log.InfoContext(ctx, "rollout has changed", "change", string(d.News), "reason", message)
	r.opts.Events.Eventf(c, nil, kind, reason, "Rollout", "%s", message)
}

// resumed removes the annotation by which a user had a rollout go on.
func (r *Reconciler) resumed(ctx context.Context, w *work, c *hostsv1.MachineConfiguration) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, c.UID, hostsv1.AnnotationResume)
	object := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
	if err := r.opts.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)), manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove annotation %s of MachineConfiguration %s: %w", hostsv1.AnnotationResume, c.Name, err)
	}
	w.resumed = r.opts.Now()
	if !meta.IsStatusConditionTrue(c.Status.Conditions, hostsv1.ConditionRolloutHalted) {
		r.opts.Log.WarnContext(ctx, "annotation removed that resumes nothing", "configuration", c.Name, "annotation", hostsv1.AnnotationResume, "reason", "the rollout has not halted")
	}
	return nil
}
