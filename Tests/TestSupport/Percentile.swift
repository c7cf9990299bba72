extension [Double] {
    /// The value that the given part of them does not exceed.
    package func percentile(_ part: Double) -> Double {
        let sorted = sorted()
        guard let last = sorted.last else { return 0 }
        return sorted.indices.contains(Int(Double(count) * part)) ? sorted[Int(Double(count) * part)] : last
    }
}
