package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/status"
)

// secretType is what Cluster API expects.
const secretType = "cluster.x-k8s.io/secret"

// enough is the number of failures in a row that people hear of.
const enough = 3

// Reconciler writes the Secret of one Cluster. All fields but the last two are required.
type Reconciler struct {
	Client         client.Client
	Store          secrets.Store
	Namespace      string
	Cluster        string          // name of the Cluster
	ServiceAccount string          // whose token it is
	Endpoint       func() Endpoint // of the API server, as the Pods of Cluster API reach it
	Now            func() time.Time

	// Failed is told when several attempts in a row have failed; nil: nobody is.
	Failed func(ctx context.Context, err error)
	// Renewed is told when the present token ends; nil: nobody is.
	Renewed func(expiry time.Time)

	mu       sync.Mutex
	failures int  // in a row
	asked    bool // for the token that is there, by this process
}

// SetupWithManager has the Secret looked at when it changes, when its Cluster does, and
// when its token is half through.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, o controller.Options) error {
	named := func(name string) predicate.Predicate {
		return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == r.Namespace && o.GetName() == name })
	}
	toSecret := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: Name(r.Cluster)}}}
	})
	o.MaxConcurrentReconciles = 1
	return ctrl.NewControllerManagedBy(mgr).
		Named("kubeconfig").
		For(&corev1.Secret{}, builder.WithPredicates(named(Name(r.Cluster)))).
		Watches(&clusterv1.Cluster{}, toSecret, builder.WithPredicates(named(r.Cluster), capi.SpecChanged())).
		WithOptions(o).
		Complete(status.RequeueConflicts(r))
}

// Reconcile makes sure that the token in the Secret lasts for half of its life. After a
// failure it comes back by itself.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	expiry, err := r.ensure(ctx)
	if errors.Is(err, errNoCluster) {
		return reconcile.Result{}, nil // it wakes us when it is there
	}
	if err != nil {
		r.failures++
		ctrl.LoggerFrom(ctx).Error(err, "kubeconfig not refreshed")
		if r.failures == enough && r.Failed != nil {
			r.Failed(ctx, err)
		}
		return reconcile.Result{RequeueAfter: Retry(r.failures)}, nil
	}
	r.failures, r.asked = 0, true
	if r.Renewed != nil {
		r.Renewed(expiry)
	}
	return reconcile.Result{RequeueAfter: max(Due(expiry).Sub(r.Now()), time.Second)}, nil
}

// errNoCluster says that there is nothing to make a kubeconfig for.
var errNoCluster = errors.New("there is no such Cluster, or it is being deleted")

// ensure returns when the token in the Secret ends, after it has replaced one that is due.
func (r *Reconciler) ensure(ctx context.Context) (time.Time, error) {
	var owner clusterv1.Cluster
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Cluster}, &owner)
	if apierrors.IsNotFound(err) || err == nil && !owner.DeletionTimestamp.IsZero() {
		return time.Time{}, errNoCluster
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("get Cluster %s: %w", r.Cluster, err)
	}
	stored, err := r.Store.Get(ctx, Name(r.Cluster))
	if err != nil && !errors.Is(err, secrets.ErrNotFound) {
		return time.Time{}, err
	}
	if expiry, ok := r.good(stored); ok && r.asked {
		return expiry, nil
	}
	return r.write(ctx, &owner)
}

// good reports whether a Secret is as it has to be for now, and when its token ends.
func (r *Reconciler) good(s secrets.Secret) (time.Time, bool) {
	expiry, err := time.Parse(time.RFC3339, s.Annotations[infrav1.AnnotationTokenExpiry])
	return expiry, err == nil && r.Now().Before(Due(expiry)) && len(s.Data[key]) > 0 &&
		s.Labels[clusterv1.ClusterNameLabel] == r.Cluster
}

func (r *Reconciler) write(ctx context.Context, owner *clusterv1.Cluster) (time.Time, error) {
	token, expiry, err := r.token(ctx)
	if err != nil {
		return time.Time{}, err
	}
	content, err := Render(r.Cluster, r.Endpoint(), token)
	if err != nil {
		return time.Time{}, errors.New("kubeconfig cannot be written") // the cause might show the token
	}
	_, err = secrets.Write(ctx, r.Store, Name(r.Cluster), func(s secrets.Secret) (secrets.Secret, error) {
		if s.Version == "" {
			s.Type = secretType
		}
		set(&s.Labels, clusterv1.ClusterNameLabel, r.Cluster)
		set(&s.Annotations, infrav1.AnnotationTokenExpiry, expiry.UTC().Format(time.RFC3339))
		s.Owners = []secrets.Owner{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: owner.Name, UID: string(owner.UID)}}
		s.Data[key] = content
		return s, nil
	})
	return expiry, err
}

// token asks the API server for a token.
func (r *Reconciler) token(ctx context.Context) (string, time.Time, error) {
	seconds := int64(Life.Seconds())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.ServiceAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := r.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", time.Time{}, fmt.Errorf("token of service account %s: %w", r.ServiceAccount, err)
	}
	return request.Status.Token, request.Status.ExpirationTimestamp.Time, nil
}

func set(m *map[string]string, name, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[name] = value
}
