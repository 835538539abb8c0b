package policytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"nstance.dev/operator/policies"
)

// A Judge answers requests as one policy does.
type Judge struct {
	policy                           policies.Policy
	conditions, validations, wording cel.ConditionEvaluator
}

// expression is a CEL expression with the type that it must have.
type expression struct {
	text    string
	results []*celgo.Type
}

func (e expression) GetExpression() string      { return e.text }
func (e expression) ReturnTypes() []*celgo.Type { return e.results }
func boolean(text string) cel.ExpressionAccessor {
	return expression{text, []*celgo.Type{celgo.BoolType}}
}
func words(text string) cel.ExpressionAccessor {
	return expression{text, []*celgo.Type{celgo.StringType}}
}

// variable is a named expression, of any type.
type variable struct {
	expression
	name string
}

func (v variable) GetName() string { return v.name }

// NewJudge compiles a policy. The error lists all expressions that do not compile.
func NewJudge(policy policies.Policy) (*Judge, error) {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	var errs []error
	spec := policy.Policy.Spec
	options := cel.OptionalVariableDeclarations{HasAuthorizer: true, HasParams: spec.ParamKind != nil}
	for _, v := range spec.Variables {
		named := variable{expression{v.Expression, []*celgo.Type{celgo.AnyType, celgo.DynType}}, v.Name}
		if result := compiler.CompileAndStoreVariable(named, options, environment.NewExpressions); result.Error != nil {
			errs = append(errs, fmt.Errorf("variable %s: %w", v.Name, result.Error))
		}
	}
	var conditions, validations, wording []cel.ExpressionAccessor
	for _, c := range spec.MatchConditions {
		conditions = append(conditions, boolean(c.Expression))
	}
	for _, v := range spec.Validations {
		validations = append(validations, boolean(v.Expression))
		wording = append(wording, words(v.MessageExpression))
	}
	judge := &Judge{
		policy:      policy,
		conditions:  compiler.CompileCondition(conditions, options, environment.NewExpressions),
		validations: compiler.CompileCondition(validations, options, environment.NewExpressions),
		wording:     compiler.CompileCondition(wording, cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil}, environment.NewExpressions),
	}
	for _, evaluator := range []cel.ConditionEvaluator{judge.conditions, judge.validations, judge.wording} {
		errs = append(errs, evaluator.CompilationErrors()...)
	}
	return judge, errors.Join(errs...)
}

// Answer returns the words in which the policy refuses a request; empty: it does not. An
// error means that a real server would refuse too, for want of an answer.
func (j *Judge) Answer(ctx context.Context, c Case) (string, error) {
	object := c.New
	if object == nil {
		object = c.Old
	}
	u := &unstructured.Unstructured{Object: object}
	resource := metav1.GroupVersionResource{
		Group: u.GroupVersionKind().Group, Version: u.GroupVersionKind().Version, Resource: strings.ToLower(u.GetKind()) + "s",
	}
	if !j.concerns(c, resource, u) {
		return "", nil
	}
	kind := u.GroupVersionKind()
	request := &admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(kind), Resource: resource, Name: u.GetName(), Namespace: u.GetNamespace(),
		Operation: admissionv1.Operation(c.Operation), UserInfo: authenticationv1.UserInfo{Username: c.User, Groups: c.Groups}, DryRun: &c.DryRun,
		SubResource: c.SubResource,
	}
	attributes := &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(versioned(c.New), versioned(c.Old), kind, u.GetNamespace(), u.GetName(), schema.GroupVersionResource(resource),
			c.SubResource, admission.Operation(c.Operation), nil, c.DryRun, &user.DefaultInfo{Name: c.User, Groups: c.Groups}),
		VersionedKind: kind, VersionedObject: versioned(c.New), VersionedOldObject: versioned(c.Old),
	}
	// A policy with parameters is evaluated once for each, and without one it passes.
	params := []runtime.Object{nil}
	if j.policy.Policy.Spec.ParamKind != nil {
		params = nil
		for _, param := range c.Params {
			params = append(params, versioned(param))
		}
	}
	for _, param := range params {
		refusal, err := j.answer(ctx, c, attributes, request, param)
		if refusal != "" || err != nil {
			return refusal, err
		}
	}
	return "", nil
}

func (j *Judge) answer(ctx context.Context, c Case, attributes *admission.VersionedAttributes, request *admissionv1.AdmissionRequest, param runtime.Object) (string, error) {
	bindings := cel.OptionalVariableBindings{VersionedParams: param, Authorizer: c}
	evaluate := func(e cel.ConditionEvaluator, namespace *corev1.Namespace) ([]cel.EvaluationResult, error) {
		results, _, err := e.ForInput(ctx, attributes, request, bindings, namespace, celconfig.RuntimeCELCostBudget)
		for _, result := range results {
			err = errors.Join(err, result.Error)
		}
		return results, err
	}

	// Match conditions see no namespace, as on a server.
	matches, err := evaluate(j.conditions, nil)
	if err != nil || slices.ContainsFunc(matches, isFalse) {
		return "", err
	}
	valid, err := evaluate(j.validations, namespace(c.Ending))
	if err != nil || !slices.ContainsFunc(valid, isFalse) {
		return "", err
	}
	// What another validation would say may not make sense for this request.
	text, _, err := j.wording.ForInput(ctx, attributes, request, bindings, namespace(c.Ending), celconfig.RuntimeCELCostBudget)
	if err != nil {
		return "", err
	}
	said := text[slices.IndexFunc(valid, isFalse)]
	if said.Error != nil {
		return "", said.Error
	}
	refusal, _ := said.EvalResult.Value().(string)
	return refusal, nil
}

// Authorize implements [authorizer.Authorizer]: the verbs of the case are all that its user may do.
func (c Case) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == c.User && slices.Contains(c.May, a.GetVerb()+" "+a.GetResource()+"."+a.GetAPIGroup()+" in "+a.GetNamespace()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// concerns reports whether a request is one that the policy is about.
func (j *Judge) concerns(c Case, resource metav1.GroupVersionResource, object metav1.Object) bool {
	constraints := j.policy.Policy.Spec.MatchConstraints
	if constraints.ObjectSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(constraints.ObjectSelector)
		if err != nil || !selector.Matches(labels.Set(object.GetLabels())) {
			return false
		}
	}
	return slices.ContainsFunc(constraints.ResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		name := resource.Resource
		if c.SubResource != "" {
			name += "/" + c.SubResource
		}
		return slices.Contains(rule.APIGroups, resource.Group) && (slices.Contains(rule.Resources, name) || slices.Contains(rule.Resources, "*/*")) &&
			slices.Contains(rule.Operations, admissionregistrationv1.OperationType(c.Operation))
	})
}

// versioned is the object of a request; absent objects are untyped nils.
func versioned(object Object) runtime.Object {
	if object == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: object}
}

// namespace is the operator's, at its end or not.
func namespace(ending bool) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Params.Namespace}}
	if ending {
		ns.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
	}
	return ns
}

func isFalse(result cel.EvaluationResult) bool {
	value, isBool := result.EvalResult.Value().(bool)
	return isBool && !value
}
