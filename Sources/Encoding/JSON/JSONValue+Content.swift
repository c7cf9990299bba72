extension JSONValue {
    /// Whether both values have the same content: the same strings, the same digits of numbers, and the same members in
    /// any order.
    ///
    /// False for numbers with different digits, even if these are equal, and for an object that repeats a key.
    ///
    /// - Precondition: This value repeats no key, as none of `jsonb` does.
    package func hasSameContent(as other: JSONValue) -> Bool {
        document.nodes.withUnsafeBufferPointer { nodes in
            other.document.nodes.withUnsafeBufferPointer { otherNodes in
                ContentComparison(left: document, leftNodes: nodes, right: other.document, rightNodes: otherNodes)
                    .isSame(index, other.index)
            }
        }
    }
}

/// Compares values of two documents by the indices of their nodes. The depth of a document is bounded.
private struct ContentComparison {
    let left: JSONDocument
    let leftNodes: UnsafeBufferPointer<JSONDocument.Node>
    let right: JSONDocument
    let rightNodes: UnsafeBufferPointer<JSONDocument.Node>

    func isSame(_ index: Int, _ other: Int) -> Bool {
        guard leftNodes[index].kind == rightNodes[other].kind else { return false }
        switch leftNodes[index].kind {
        case .true, .false, .null: return true
        case .number, .string: return isSameText(index, other)
        case .array: return hasSameElements(index, other)
        case .object: return hasSameMembers(index, other)
        }
    }

    private func hasSameElements(_ index: Int, _ other: Int) -> Bool {
        let (end, otherEnd) = (Int(leftNodes[index].next), Int(rightNodes[other].next))
        var (element, otherElement) = (index + 1, other + 1)
        while element < end, otherElement < otherEnd {
            guard isSame(element, otherElement) else { return false }
            (element, otherElement) = (Int(leftNodes[element].next), Int(rightNodes[otherElement].next))
        }
        return element == end && otherElement == otherEnd
    }

    /// Each key of the left object is another one, so objects of as many members have the same keys if each is found.
    private func hasSameMembers(_ index: Int, _ other: Int) -> Bool {
        let (end, otherEnd) = (Int(leftNodes[index].next), Int(rightNodes[other].next))
        var (key, count, otherCount) = (index + 1, 0, 0)
        while key < end {
            var (found, otherKey) = (false, other + 1)
            otherCount = 0
            while otherKey < otherEnd {
                if !found, isSameText(key, otherKey) {
                    guard isSame(key + 1, otherKey + 1) else { return false }
                    found = true
                }
                otherCount += 1
                otherKey = Int(rightNodes[otherKey + 1].next)
            }
            guard found else { return false }
            count += 1
            key = Int(leftNodes[key + 1].next)
        }
        return key == index + 1 ? otherEnd == other + 1 : count == otherCount
    }

    private func isSameText(_ index: Int, _ other: Int) -> Bool {
        let (node, otherNode) = (leftNodes[index], rightNodes[other])
        guard !node.isEscaped, !otherNode.isEscaped else {
            guard let text = JSONValue(document: left, index: index).string,
                let otherText = JSONValue(document: right, index: other).string
            else { return false }
            return ByteString(text) == ByteString(otherText)
        }
        return node.keyMark == otherNode.keyMark
            && left.bytes[Int(node.start)..<Int(node.end)]
                .hasSameBytes(as: right.bytes[Int(otherNode.start)..<Int(otherNode.end)])
    }
}
