package cli

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/document"
)

// sizeOf is the size of a group, or that it has none.
func sizeOf(g *nstancev1.GroupStatus) string {
	if isDemand(g) {
		return g.GetMode()
	}
	return number(g.GetSize())
}

func isDemand(g *nstancev1.GroupStatus) bool { return g.GetMode() == document.ModeDemand }

func groupView() output.View[*nstancev1.GroupStatus] {
	type column = output.Column[*nstancev1.GroupStatus]
	return output.View[*nstancev1.GroupStatus]{
		Name: (*nstancev1.GroupStatus).GetKey,
		Columns: []column{
			{Header: "KEY", Value: (*nstancev1.GroupStatus).GetKey},
			{Header: "TEMPLATE", Value: (*nstancev1.GroupStatus).GetTemplate},
			{Header: "SIZE", Value: sizeOf},
			{Header: "ACTUAL", Value: func(g *nstancev1.GroupStatus) string { return number(g.GetActualSize()) }},
			{Header: "TYPE", Value: (*nstancev1.GroupStatus).GetInstanceType},
			{Header: "POOL", Value: (*nstancev1.GroupStatus).GetSubnetPool},
			{Header: "STATIC", Value: func(g *nstancev1.GroupStatus) string { return strconv.FormatBool(g.GetIsStatic()) }},
			{Header: "PENDING", Wide: true, Value: func(g *nstancev1.GroupStatus) string { return number(g.GetPending()) }},
			{Header: "UNHEALTHY", Wide: true, Value: func(g *nstancev1.GroupStatus) string { return number(g.GetUnhealthy()) }},
			{Header: "DRAINING", Wide: true, Value: func(g *nstancev1.GroupStatus) string { return number(g.GetDraining()) }},
			{Header: "TENANT", Wide: true, Value: (*nstancev1.GroupStatus).GetTenant},
			{Header: "ARCH", Wide: true, Value: (*nstancev1.GroupStatus).GetArch},
			{Header: "ZONE", Wide: true, Value: (*nstancev1.GroupStatus).GetZone},
			{Header: "REMARK", Wide: true, Value: groupRemark},
		},
	}
}

// groupRemark says what is unusual about a group.
func groupRemark(g *nstancev1.GroupStatus) string {
	var remarks []string
	if g.GetDeleting() {
		remarks = append(remarks, "deleting")
	}
	if g.GetRebuilt() {
		remarks = append(remarks, "rebuilt after a loss: waits to be confirmed")
	}
	if g.GetSuspended() {
		remarks = append(remarks, "asleep")
	}
	if g.GetPause() != nil {
		remarks = append(remarks, "paused "+pauseEnd(g.GetPause())+": "+g.GetPause().GetReason())
	}
	if g.GetManager() != "" {
		remarks = append(remarks, "managed by "+g.GetManager())
	}
	return strings.Join(remarks, ", ")
}

// instanceView shows ages as of the moment at which a row is printed.
func instanceView(now func() time.Time) output.View[*nstancev1.InstanceStatus] {
	type column = output.Column[*nstancev1.InstanceStatus]
	return output.View[*nstancev1.InstanceStatus]{
		Name: (*nstancev1.InstanceStatus).GetInstanceId,
		Columns: []column{
			{Header: "INSTANCE", Value: (*nstancev1.InstanceStatus).GetInstanceId},
			{Header: "GROUP", Value: (*nstancev1.InstanceStatus).GetGroup},
			{Header: "STATUS", Value: instanceStatus},
			{Header: "AGE", Value: func(i *nstancev1.InstanceStatus) string { return age(i.GetCreatedAt(), now()) }},
			{Header: "ADDRESS", Value: func(i *nstancev1.InstanceStatus) string { return first(i.GetAddresses()) }},
			{Header: "TENANT", Wide: true, Value: (*nstancev1.InstanceStatus).GetTenant},
			{Header: "ON_DEMAND", Wide: true, Value: func(i *nstancev1.InstanceStatus) string { return strconv.FormatBool(i.GetOnDemand()) }},
			{Header: "TYPE", Wide: true, Value: (*nstancev1.InstanceStatus).GetInstanceType},
			{Header: "TEMPLATE", Wide: true, Value: (*nstancev1.InstanceStatus).GetTemplate},
			{Header: "SEEN", Wide: true, Value: func(i *nstancev1.InstanceStatus) string { return age(i.GetLastSeen(), now()) }},
			{Header: "HOSTNAME", Wide: true, Value: (*nstancev1.InstanceStatus).GetHostname},
			{Header: "PROVIDER_ID", Wide: true, Value: (*nstancev1.InstanceStatus).GetProviderInstanceId},
			{Header: "AGENT", Wide: true, Value: (*nstancev1.InstanceStatus).GetAgentVersion},
			{Header: "HOLD", Wide: true, Value: func(i *nstancev1.InstanceStatus) string { return i.GetHold().GetReason() }},
		},
	}
}

func instanceStatus(i *nstancev1.InstanceStatus) string {
	if reason := i.GetCondemned().GetReason(); reason != "" {
		return i.GetStatus() + " (" + reason + ")"
	}
	return i.GetStatus()
}

func groupEventView() output.View[*nstancev1.GroupEvent] {
	columns := []output.Column[*nstancev1.GroupEvent]{
		{Header: "EVENT", Value: func(e *nstancev1.GroupEvent) string { return e.GetType() }},
	}
	for _, c := range groupView().Columns {
		columns = append(columns, output.Column[*nstancev1.GroupEvent]{
			Header: c.Header, Wide: c.Wide, Value: func(e *nstancev1.GroupEvent) string { return c.Value(e.GetGroup()) },
		})
	}
	return output.View[*nstancev1.GroupEvent]{
		Name:    func(e *nstancev1.GroupEvent) string { return e.GetGroup().GetKey() },
		Columns: columns,
	}
}

func instanceEventView() output.View[*nstancev1.InstanceEvent] {
	type column = output.Column[*nstancev1.InstanceEvent]
	return output.View[*nstancev1.InstanceEvent]{
		Name: (*nstancev1.InstanceEvent).GetInstanceId,
		Columns: []column{
			{Header: "INSTANCE", Value: (*nstancev1.InstanceEvent).GetInstanceId},
			{Header: "GROUP", Value: (*nstancev1.InstanceEvent).GetGroup},
			{Header: "EVENT", Value: (*nstancev1.InstanceEvent).GetStatus},
			{Header: "REASON", Value: (*nstancev1.InstanceEvent).GetReason},
			{Header: "DELETE_AT", Value: func(e *nstancev1.InstanceEvent) string { return clock(e.GetDeleteAt()) }},
			{Header: "TENANT", Wide: true, Value: (*nstancev1.InstanceEvent).GetTenant},
			{Header: "PROVIDER_ID", Wide: true, Value: (*nstancev1.InstanceEvent).GetProviderInstanceId},
			{Header: "REVISION", Wide: true, Value: func(e *nstancev1.InstanceEvent) string { return strconv.FormatInt(e.GetRevision(), 10) }},
		},
	}
}

func errorEventView() output.View[*nstancev1.ErrorEvent] {
	type column = output.Column[*nstancev1.ErrorEvent]
	return output.View[*nstancev1.ErrorEvent]{
		Name: (*nstancev1.ErrorEvent).GetClass,
		Columns: []column{
			{Header: "TIME", Value: func(e *nstancev1.ErrorEvent) string { return clock(e.GetTimestamp()) }},
			{Header: "CLASS", Value: (*nstancev1.ErrorEvent).GetClass},
			{Header: "GROUP", Value: (*nstancev1.ErrorEvent).GetGroup},
			{Header: "INSTANCE", Value: (*nstancev1.ErrorEvent).GetInstanceId},
			{Header: "ERROR", Value: (*nstancev1.ErrorEvent).GetError},
		},
	}
}

func configStatusView() output.View[*nstancev1.GetConfigStatusResponse] {
	type column = output.Column[*nstancev1.GetConfigStatusResponse]
	return output.View[*nstancev1.GetConfigStatusResponse]{
		Name: (*nstancev1.GetConfigStatusResponse).GetEtag,
		Columns: []column{
			{Header: "ETAG", Value: (*nstancev1.GetConfigStatusResponse).GetEtag},
			{Header: "LAST_MODIFIED", Value: func(c *nstancev1.GetConfigStatusResponse) string { return clock(c.GetLastModified()) }},
			{Header: "SIZE", Value: func(c *nstancev1.GetConfigStatusResponse) string { return number(c.GetSize()) }},
			{Header: "REJECTED", Value: (*nstancev1.GetConfigStatusResponse).GetRejectedEtag},
			{Header: "REASON", Wide: true, Value: (*nstancev1.GetConfigStatusResponse).GetRejectedReason},
		},
	}
}

func number(n int32) string { return strconv.Itoa(int(n)) }

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}

// age is how long ago something was; empty: it never was.
func age(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return ""
	}
	return output.Age(t.AsTime(), now)
}
