package drivertest

import "nstance.dev/server/driver"

// capacityTypes checks that machines are made of every capacity type that the provider serves, once for
// each request however often that is sent, and of no other; and that nothing is made of a request
// that contradicts itself.
func (s *suite) capacityTypes() {
	for _, capacity := range []driver.CapacityType{driver.OnDemand, driver.Spot, driver.Reserved, driver.BareMetal} {
		req := s.request(testOwner)
		req.CapacityType = capacity
		if capacity == driver.Reserved {
			req.Reservation = s.Reservation
			if req.Reservation == "" {
				req.Reservation = "some"
			}
		}
		m, err := s.Create(s.t.Context(), req)
		if !s.Capacity.Serves(capacity) {
			s.wantKind("create of "+string(capacity)+" capacity, which is not served", err, driver.Invalid)
			s.none(req)
			continue
		}
		if err != nil {
			s.t.Errorf("create of %s capacity: %v", capacity, err)
			continue
		}
		again, err := s.Create(s.t.Context(), req)
		if err != nil || again.ProviderID != m.ProviderID {
			s.t.Errorf("create of %s capacity made %s, and when it was repeated %s, %v", capacity, m.ProviderID, again.ProviderID, err)
		}
		s.await(req.InstanceID, driver.Running)
	}
	for name, spoil := range map[string]func(*driver.CreateRequest){
		"a capacity type that does not exist":      func(r *driver.CreateRequest) { r.CapacityType = "free" },
		"reserved capacity without a reservation":  func(r *driver.CreateRequest) { r.CapacityType = driver.Reserved },
		"a reservation for capacity on demand":     func(r *driver.CreateRequest) { r.CapacityType, r.Reservation = driver.OnDemand, "some" },
		"a reservation without a type of capacity": func(r *driver.CreateRequest) { r.Reservation = "some" },
	} {
		req := s.request(testOwner)
		spoil(&req)
		_, err := s.Create(s.t.Context(), req)
		s.wantKind("create with "+name, err, driver.Invalid)
		s.none(req)
	}
}

// none checks that a refused request has made nothing.
func (s *suite) none(req driver.CreateRequest) {
	s.t.Helper()
	if n := len(s.listed(req.Owner, req.InstanceID)); n != 0 {
		s.t.Errorf("a create that was refused made %d machines", n)
	}
}
