package interval

// Golden finds the x from low to high that makes a loss with one minimum least, by golden
// sections, until the rest is shorter than within. Where two losses are equal, or both
// infinite, it looks below.
func Golden(low, high, within float64, loss func(float64) float64) float64 {
	const golden = 0.6180339887498949
	a, b := high-golden*(high-low), low+golden*(high-low)
	atA, atB := loss(a), loss(b)
	for high-low > within {
		if atA <= atB {
			high, b, atB = b, a, atA
			a = high - golden*(high-low)
			atA = loss(a)
		} else {
			low, a, atA = a, b, atB
			b = low + golden*(high-low)
			atB = loss(b)
		}
	}
	return (low + high) / 2
}
