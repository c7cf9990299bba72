import Encoding

/// An answer about access: whether it is active, and what else the answer contains.
package struct AccessText: Sendable, Hashable, CustomStringConvertible {
    package let active: Bool
    package let until: Instant?
    /// Nil if it is not compared.
    package var status: String?
    /// Nil if it is not compared.
    package var productId: String?

    static let notActive = AccessText(active: false, until: nil)

    /// The members that another answer has, to compare both.
    func limited(to other: AccessText?) -> AccessText {
        AccessText(
            active: active, until: until, status: other?.status == nil ? nil : status,
            productId: other?.productId == nil ? nil : productId)
    }

    package var description: String {
        (active ? "active" : "not active") + (until.map { " until \($0)" } ?? "") + (status.map { ", \($0)" } ?? "")
            + (productId.map { ", \($0)" } ?? "")
    }
}
