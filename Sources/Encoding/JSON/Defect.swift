/// A field that could not be decoded. The rest of its notification is used.
package struct Defect: Sendable, Hashable {
    /// The path of the field, such as `unified_receipt.latest_receipt_info[2].expires_date_ms`.
    package let path: String
    /// The problem, without the value unless it is a word of the store that this version does not know.
    package let problem: String

    package init(path: String, problem: String) {
        self.path = path
        self.problem = problem
    }
}
