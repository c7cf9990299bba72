/// How much the quarantine keeps, and for how long.
package struct QuarantineBounds: Sendable, Hashable {
    /// Most bytes of all bodies together, uncompressed.
    package let bytesMax: Int64
    package let daysMax: Int

    /// 256 MiB are about 25,000 notifications. An app that is registered and not configured is noticed within a month.
    package static let standard = QuarantineBounds(bytesMax: 256 << 20, daysMax: 30)

    package init(bytesMax: Int64, daysMax: Int) {
        self.bytesMax = bytesMax
        self.daysMax = daysMax
    }
}
