extension [Double] {
    /// The value that the given fraction of the elements does not exceed; 0 if there are none.
    package func percentile(_ part: Double) -> Double {
        let sorted = sorted()
        guard let last = sorted.last else { return 0 }
        return sorted.indices.contains(Int(Double(count) * part)) ? sorted[Int(Double(count) * part)] : last
    }
}
