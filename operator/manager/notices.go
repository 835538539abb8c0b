package manager

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// notices are events on the NstanceCluster, for what concerns the operator as a whole.
type notices struct {
	recorder events.EventRecorder
	reader   client.Reader
	key      client.ObjectKey
	log      *slog.Logger
}

// normal and warn send an event. Before there is an NstanceCluster it is logged alone.
func (n notices) normal(ctx context.Context, reason, action, format string, args ...any) {
	n.send(ctx, corev1.EventTypeNormal, nil, reason, action, format, args...)
}

func (n notices) warn(ctx context.Context, reason, action, format string, args ...any) {
	n.send(ctx, corev1.EventTypeWarning, nil, reason, action, format, args...)
}

// warnAbout sends a warning about an object that is not the operator's. Events of one reason are counted together
// for minutes, with the text of the first; those about different objects are not.
func (n notices) warnAbout(ctx context.Context, related runtime.Object, reason, action, format string, args ...any) {
	n.send(ctx, corev1.EventTypeWarning, related, reason, action, format, args...)
}

func (n notices) send(ctx context.Context, kind string, related runtime.Object, reason, action, format string, args ...any) {
	var about infrav1.NstanceCluster
	if err := n.reader.Get(ctx, n.key, &about); err != nil {
		n.log.InfoContext(ctx, "event not published: NstanceCluster unreadable", "reason", reason, "error", err)
		return
	}
	n.recorder.Eventf(&about, related, kind, reason, action, format, args...)
}
